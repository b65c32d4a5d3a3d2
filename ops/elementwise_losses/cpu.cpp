// Losses of one element each, and their gradients.
#include "ops/arithmetic/cpu_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {

std::span<const KernelEntry> elementwise_losses() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_LOSS(op, Function, ...)                       \
  {#op, pair_kernel<functions::Function>, Layouts::kSame}, \
      {#op "_grad", triple_kernel<functions::Function##Gradient>, Layouts::kSame},
#include "ops/arithmetic/binary.def"
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
