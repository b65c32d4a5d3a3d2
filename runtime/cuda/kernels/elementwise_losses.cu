// Losses of one element each, and their gradients.
#include "runtime/cuda/kernels/binary.cuh"
#include "runtime/cuda/kernels/families.h"

namespace flow::cuda {

std::span<const KernelEntry> kernels::elementwise_losses() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_LOSS(op, Function, ...)       \
  {#op, pair_kernel<functions::Function>}, \
      {#op "_grad", triple_kernel<functions::Function##Gradient>},
#include "ops/binary.def"
  };
  return kKernels;
}

}  // namespace flow::cuda
