// Losses of one element each, and their gradients.
#include "runtime/cpu/kernels/binary_loops.h"
#include "runtime/cpu/kernels/families.h"

namespace flow::cpu::fast {

std::span<const KernelEntry> elementwise_losses() {
  static constexpr KernelEntry kKernels[] = {
      {"mse", pair_kernel<functions::SquaredDifference>, Layouts::kSame},
      {"mse_grad", triple_kernel<functions::SquaredDifferenceGradient>, Layouts::kSame},
      {"l1", pair_kernel<functions::AbsoluteDifference>, Layouts::kSame},
      {"l1_grad", triple_kernel<functions::AbsoluteDifferenceGradient>, Layouts::kSame},
      {"smooth_l1", pair_kernel<functions::SmoothL1>, Layouts::kSame},
      {"smooth_l1_grad", triple_kernel<functions::SmoothL1Gradient>, Layouts::kSame},
      {"sigmoid_cross_entropy_with_logits", pair_kernel<functions::SigmoidCrossEntropy>,
       Layouts::kSame},
      {"sigmoid_cross_entropy_with_logits_grad",
       triple_kernel<functions::SigmoidCrossEntropyGradient>, Layouts::kSame},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
