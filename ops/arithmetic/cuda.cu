// Arithmetic of numbers that broadcast, and scale.
#include "ops/arithmetic/cuda.cuh"
#include "ops/core/spec.h"
#include "ops/unary/activations.h"
#include "runtime/base/convert.h"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

template <typename T>
struct Scale {
  T factor;
  __device__ T operator()(T x) const { return x * factor; }
};

Kernel prepare_scale(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const auto factor = static_cast<T>(attribute<double>(request, "factor"));
    return {map_launch<T>("scale", request, Scale<T>{factor})};
  });
}

template <typename T>
struct RectifiedSum {
  __device__ T operator()(T a, T b) const {
    return convert<T>(functions::Relu<Wide<T>>{}(convert<Wide<T>>(a) + convert<Wide<T>>(b)));
  }
};

/// What a ReLU whose result was y passes on of a gradient a + b.
template <typename T>
struct PassedSum {
  __device__ T operator()(T a, T b, T y) const {
    return convert<T>(functions::Relu<Wide<T>>{}.gradient(convert<Wide<T>>(a) + convert<Wide<T>>(b),
                                                          convert<Wide<T>>(y)));
  }
};

/// A sum of tensors of one shape with a relu, or the gradient of one, as its epilogue.
Kernel rectified_sum_kernel(const Request& request) {
  const bool forward = request.step.epilogue[0].op->epilogue == ops::Epilogue::kRelu;
  return visit_any_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    if (forward) return {map_pairs_launch<T>("add_relu", request, RectifiedSum<T>{})};
    return {[n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      const auto* y = reinterpret_cast<const T*>(buffers.epilogue_operands[0][0]);
      launch(state.driver, state.stream, "add_relu_grad", shape_for_vectors<T>(n),
             map_flat_triples<T, PassedSum<T>>, input<T>(buffers, 0), input<T>(buffers, 1), y,
             output<T>(buffers, 0), n, PassedSum<T>{});
    }};
  });
}

template <template <typename> class F>
Kernel prepare_pair(const Request& request) {
  const bool sum = std::is_same_v<F<float>, functions::Add<float>>;
  if (sum && !request.step.epilogue.empty()) return rectified_sum_kernel(request);
  return number_pair_kernel<F>(request);
}

}  // namespace

std::span<const KernelEntry> kernels::arithmetic() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_ARITHMETIC(op, Function, ...) \
  {#op, prepare_pair<functions::Function>, {}, {}, {}, layout_of_pairs<functions::Function>()},
#define FLOW_FLOAT_ARITHMETIC(op, Function, ...) {#op, pair_kernel<functions::Function>},
#define FLOW_ARITHMETIC_GRAD(op, Function, ...) {#op, triple_kernel<functions::Function>},
#include "ops/arithmetic/binary.def"
      {"scale", prepare_scale},
  };
  return kKernels;
}

}  // namespace flow::cuda
