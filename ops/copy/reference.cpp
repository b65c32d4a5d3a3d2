// Reference: copy.
#include "ops/core/reference_moving.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {

std::span<const KernelEntry> copy() {
  static constexpr KernelEntry kKernels[] = {{"copy", moving_all}};
  return kKernels;
}

}  // namespace flow::cpu::reference
