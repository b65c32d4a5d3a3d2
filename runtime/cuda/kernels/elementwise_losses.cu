// Losses of one element each, and their gradients.
#include "runtime/cuda/kernels/binary.cuh"
#include "runtime/cuda/kernels/families.h"

namespace flow::cuda {

std::span<const KernelEntry> kernels::elementwise_losses() {
  static constexpr KernelEntry kKernels[] = {
      {"mse", pair_kernel<functions::SquaredDifference>},
      {"mse_grad", triple_kernel<functions::SquaredDifferenceGradient>},
      {"l1", pair_kernel<functions::AbsoluteDifference>},
      {"l1_grad", triple_kernel<functions::AbsoluteDifferenceGradient>},
      {"smooth_l1", pair_kernel<functions::SmoothL1>},
      {"smooth_l1_grad", triple_kernel<functions::SmoothL1Gradient>},
      {"sigmoid_cross_entropy_with_logits", pair_kernel<functions::SigmoidCrossEntropy>},
      {"sigmoid_cross_entropy_with_logits_grad",
       triple_kernel<functions::SigmoidCrossEntropyGradient>},
  };
  return kKernels;
}

}  // namespace flow::cuda
