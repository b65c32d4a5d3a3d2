// Reference: flip.
#include "ops/core/reference_moving.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

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

}  // namespace

std::span<const KernelEntry> flip() {
  static constexpr KernelEntry kKernels[] = {{"flip", prepare_flip}};
  return kKernels;
}

}  // namespace flow::cpu::reference
