// Losses of one element each, and their gradients.
#include "ops/arithmetic/cuda.cuh"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {

std::span<const KernelEntry> kernels::elementwise_losses() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_LOSS(op, Function, ...)       \
  {#op, pair_kernel<functions::Function>}, \
      {#op "_grad", triple_kernel<functions::Function##Gradient>},
#include "ops/arithmetic/binary.def"
  };
  return kKernels;
}

}  // namespace flow::cuda
