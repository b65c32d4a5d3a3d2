// Reference: copy.
#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/reference/moving.h"

namespace flow::cpu::reference {

std::span<const KernelEntry> copy() {
  static constexpr KernelEntry kKernels[] = {{"copy", moving_all}};
  return kKernels;
}

}  // namespace flow::cpu::reference
