// Losses of one element each, and their gradients.
#include "runtime/cpu/kernels/binary_loops.h"
#include "runtime/cpu/kernels/families.h"

namespace flow::cpu::fast {

std::span<const KernelEntry> elementwise_losses() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_LOSS(op, Function, ...)                       \
  {#op, pair_kernel<functions::Function>, Layouts::kSame}, \
      {#op "_grad", triple_kernel<functions::Function##Gradient>, Layouts::kSame},
#include "ops/binary.def"
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
