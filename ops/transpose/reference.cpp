// Reference: transpose.
#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_transpose(const Request& request) {
  const Shape x = request.inputs[0].shape, y = request.outputs[0].shape;
  return moving(request, [x, y, perm = integers(request, "perm")](int64_t i) {
    const AxisPlaces out = places_of(y, i);
    AxisPlaces in{};
    for (size_t axis = 0; axis < perm.size(); ++axis)
      in[static_cast<size_t>(perm[axis])] = out[axis];
    return index_at(x, in);
  });
}

}  // namespace

std::span<const KernelEntry> transpose() {
  static constexpr KernelEntry kKernels[] = {{"transpose", prepare_transpose}};
  return kKernels;
}

}  // namespace flow::cpu::reference
