// Reference kernels of the gradients of parts.
#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

/// Maps element i of a slice of `x` to the element of `x`.
struct SliceSource {
  SliceSource(const Request& request, Shape x_shape)
      : x(std::move(x_shape)),
        counts(integers(request, "counts")),
        starts(integers(request, "starts")),
        steps(integers(request, "steps")) {}
  int64_t operator()(int64_t i) const {
    AxisPlaces places = places_of(counts, i);
    for (size_t axis = 0; axis < starts.size(); ++axis)
      places[axis] = starts[axis] + places[axis] * steps[axis];
    return index_at(x, places);
  }

  Shape x, counts;
  std::vector<int64_t> starts, steps;
};

Kernel prepare_slice_grad(const Request& request) {
  return scattering(request, SliceSource(request, request.outputs[0].shape));
}

}  // namespace

std::span<const KernelEntry> parts() {
  static constexpr KernelEntry kKernels[] = {
      {"slice_grad", prepare_slice_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
