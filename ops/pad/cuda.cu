// Kernels of pad, which surrounds an array with padding, and of pad_grad, which sums the gradients
// of elements that reflection or edge padding copied.
#include "ops/pad/problem.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// y[i] = the element of x that place i copies, or the constant
template <typename T>
__global__ void pad_elements(Padding padding, const T* x, T value, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t from = padding.source(i);
    y[i] = from < 0 ? value : x[from];
  }
}

/// dx[j] = the sum of dy over the copies of j. Copies along the last axis are added first.
template <typename T>
__global__ void sum_copies(Padding padding, const T* dy, T* dx, int64_t n) {
  for (int64_t j = first_index(); j < n; j += index_step()) {
    int64_t places[plan::kMaxRank], rest = j, all = 1;
    for (int k = padding.rank - 1; k >= 0; --k) {
      places[k] = rest % padding.axes[k].n;
      rest /= padding.axes[k].n;
      all *= padding.axes[k].copies(padding.mode, places[k]);
    }
    T sum = 0;
    for (int64_t copy = 0; copy < all; ++copy) {
      int64_t number = copy, from = 0, stride = 1;
      for (int k = padding.rank - 1; k >= 0; --k) {
        const PaddedAxis& axis = padding.axes[k];
        const int64_t copies = axis.copies(padding.mode, places[k]);
        from += axis.copy(padding.mode, places[k], number % copies) * stride;
        stride *= axis.large();
        number /= copies;
      }
      sum += dy[from];
    }
    dx[j] = sum;
  }
}

Kernel prepare_pad(const Request& request) {
  const auto value = attribute<double>(request, "value");
  const Padding padding = padding_of(request, request.inputs[0].shape);
  return visit_dtype(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[padding, element = convert<T>(value), n = result_elements(request)](
                const Buffers& buffers, const LaunchState& state) {
      launch(state, "pad", shape_for(n), pad_elements<T>, padding, input<T>(buffers, 0), element,
             output<T>(buffers, 0), n);
    }};
  });
}

Kernel prepare_pad_grad(const Request& request) {
  const Padding padding = padding_of(request, request.outputs[0].shape);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {
        [padding, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
          launch(state, "pad_grad", shape_for(n), sum_copies<T>, padding, input<T>(buffers, 0),
                 output<T>(buffers, 0), n);
        }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::pad() {
  static constexpr KernelEntry kKernels[] = {
      {"pad", prepare_pad},
      {"pad_grad", prepare_pad_grad},
  };
  return kKernels;
}

}  // namespace flow::cuda
