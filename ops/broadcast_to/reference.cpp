// Reference: repetition to a larger shape.
#include "ops/core/reference_index.h"
#include "ops/core/reference_moving.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_broadcast_to(const Request& request) {
  return moving(request, [x = request.inputs[0].shape, out = request.outputs[0].shape](int64_t i) {
    return operand_index(out, i, x);
  });
}

}  // namespace

std::span<const KernelEntry> broadcast_to() {
  static constexpr KernelEntry kKernels[] = {{"broadcast_to", prepare_broadcast_to}};
  return kKernels;
}

}  // namespace flow::cpu::reference
