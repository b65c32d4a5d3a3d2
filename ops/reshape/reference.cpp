// Reference: reshape.
#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {

std::span<const KernelEntry> reshape() {
  static constexpr KernelEntry kKernels[] = {
      {"reshape", moving_all},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
