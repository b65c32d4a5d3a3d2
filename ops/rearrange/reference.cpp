// Reference: tile, flip and broadcast_to.
#include "ops/core/reference_loops.h"
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

Kernel prepare_flip(const Request& request) {
  return moving(request,
                [x = request.inputs[0].shape, axes = integers(request, "axes")](int64_t i) {
                  AxisPlaces places = places_of(x, i);
                  for (const int64_t axis : axes) {
                    int64_t& place = places[static_cast<size_t>(axis)];
                    place = x[static_cast<int>(axis)] - 1 - place;
                  }
                  return index_at(x, places);
                });
}

Kernel prepare_broadcast_to(const Request& request) {
  return moving(request, [x = request.inputs[0].shape, out = request.outputs[0].shape](int64_t i) {
    return operand_index(out, i, x);
  });
}

}  // namespace

std::span<const KernelEntry> rearrange() {
  static constexpr KernelEntry kKernels[] = {
      {"tile", prepare_tile},
      {"flip", prepare_flip},
      {"broadcast_to", prepare_broadcast_to},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
