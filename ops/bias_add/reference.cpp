// Reference kernels of bias_add and its gradient.
#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

Around channels_of(const Request& request) { return {request.inputs[0].shape, axis_of(request)}; }

Kernel prepare_bias_add(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [v = channels_of(request)](const Buffers& buffers, const CallState&) {
      const T *x = input<T>(buffers, 0), *bias = input<T>(buffers, 1);
      T* y = output<T>(buffers, 0);
      for (int64_t row = 0; row < v.outer * v.extent; ++row)
        for (int64_t i = row * v.inner; i < (row + 1) * v.inner; ++i)
          y[i] =
              static_cast<T>(static_cast<double>(x[i]) + static_cast<double>(bias[row % v.extent]));
    };
  });
  return kernel;
}

Kernel prepare_bias_add_grad(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [v = channels_of(request)](const Buffers& buffers, const CallState&) {
      const T* dy = input<T>(buffers, 0);
      T* dbias = output<T>(buffers, 0);
      for (int64_t c = 0; c < v.extent; ++c) {
        double sum = 0;
        for (int64_t outer = 0; outer < v.outer; ++outer)
          for (int64_t i = 0; i < v.inner; ++i)
            sum += static_cast<double>(dy[(outer * v.extent + c) * v.inner + i]);
        dbias[c] = static_cast<T>(sum);
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> bias_add() {
  static constexpr KernelEntry kKernels[] = {
      {"bias_add", prepare_bias_add},
      {"bias_add_grad", prepare_bias_add_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
