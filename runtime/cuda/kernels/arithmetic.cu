// Arithmetic of numbers that broadcast, and scale.
#include "runtime/cuda/kernels/binary.cuh"
#include "runtime/cuda/kernels/families.h"

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

}  // namespace

std::span<const KernelEntry> kernels::arithmetic() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_ARITHMETIC(op, Function, ...) {#op, number_pair_kernel<functions::Function>},
#define FLOW_FLOAT_ARITHMETIC(op, Function, ...) {#op, pair_kernel<functions::Function>},
#define FLOW_ARITHMETIC_GRAD(op, Function, ...) {#op, triple_kernel<functions::Function>},
#include "ops/binary.def"
      {"scale", prepare_scale},
  };
  return kKernels;
}

}  // namespace flow::cuda
