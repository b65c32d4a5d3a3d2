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
      {"add", number_pair_kernel<functions::Add>},
      {"subtract", number_pair_kernel<functions::Subtract>},
      {"multiply", number_pair_kernel<functions::Multiply>},
      {"divide", pair_kernel<functions::Divide>},
      {"pow", number_pair_kernel<functions::Pow>},
      {"pow_grad_base", triple_kernel<functions::PowGradientBase>},
      {"pow_grad_exponent", triple_kernel<functions::PowGradientExponent>},
      {"maximum", number_pair_kernel<functions::Maximum>},
      {"minimum", number_pair_kernel<functions::Minimum>},
      {"scale", prepare_scale},
  };
  return kKernels;
}

}  // namespace flow::cuda
