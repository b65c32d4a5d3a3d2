// Reference: reshape.
#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/reference/moving.h"

namespace flow::cpu::reference {

std::span<const KernelEntry> reshape() {
  static constexpr KernelEntry kKernels[] = {{"reshape", moving_all}};
  return kKernels;
}

}  // namespace flow::cpu::reference
