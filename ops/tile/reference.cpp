// Reference: tile.
#include "ops/core/reference_moving.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_tile(const Request& request) {
  const Shape x = request.inputs[0].shape, y = request.outputs[0].shape;
  return moving(request, [x, y](int64_t i) {
    AxisPlaces places = places_of(y, i);
    for (int axis = 0; axis < x.rank(); ++axis) places[static_cast<size_t>(axis)] %= x[axis];
    return index_at(x, places);
  });
}

}  // namespace

std::span<const KernelEntry> tile() {
  static constexpr KernelEntry kKernels[] = {{"tile", prepare_tile}};
  return kKernels;
}

}  // namespace flow::cpu::reference
