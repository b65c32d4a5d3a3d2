// Reference: arrays joined, parts of them, and the gradients of parts.
#include <cstring>

#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

/// Copies each element of each part from or to its place in the whole, [outer, extent, inner].
Kernel joining(const Request& request, std::vector<int64_t> sizes, int64_t outer, int64_t inner,
               bool together) {
  Kernel kernel;
  int64_t extent = 0;
  for (const int64_t size : sizes) extent += size;
  kernel.launch = [=, element = size_of(request.inputs[0].dtype)](const Buffers& buffers,
                                                                  const CallState&) {
    int64_t begin = 0;
    for (size_t k = 0; k < sizes.size(); begin += sizes[k++]) {
      std::byte* part = together ? const_cast<std::byte*>(buffers.inputs[k]) : buffers.outputs[k];
      std::byte* whole = together ? buffers.outputs[0] : const_cast<std::byte*>(buffers.inputs[0]);
      if (!part) continue;
      for (int64_t i = 0; i < outer * sizes[k] * inner; ++i) {
        const int64_t o = i / (sizes[k] * inner), rest = i % (sizes[k] * inner);
        std::byte* own = part + static_cast<size_t>(i) * element;
        std::byte* there =
            whole + static_cast<size_t>((o * extent + begin) * inner + rest) * element;
        std::memcpy(together ? there : own, together ? own : there, element);
      }
    }
  };
  return kernel;
}

Kernel prepare_concat(const Request& request) {
  const int axis = axis_of(request);
  const Shape& y = request.outputs[0].shape;
  std::vector<int64_t> sizes;
  for (const TensorDesc& x : request.inputs) sizes.push_back(x.shape[axis]);
  return joining(request, sizes, y.elements(0, axis), y.elements(axis + 1, y.rank()), true);
}

Kernel prepare_stack(const Request& request) {
  const int axis = axis_of(request);
  const Shape& y = request.outputs[0].shape;
  return joining(request, std::vector<int64_t>(request.inputs.size(), 1), y.elements(0, axis),
                 y.elements(axis + 1, y.rank()), true);
}

Kernel prepare_split(const Request& request) {
  const int axis = axis_of(request);
  const Shape& x = request.inputs[0].shape;
  return joining(request, integers(request, "sizes"), x.elements(0, axis),
                 x.elements(axis + 1, x.rank()), false);
}

/// The element of `x` that element i of a slice of it is.
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

Kernel prepare_slice(const Request& request) {
  return moving(request, SliceSource(request, request.inputs[0].shape));
}

Kernel prepare_slice_grad(const Request& request) {
  return scattering(request, SliceSource(request, request.outputs[0].shape));
}

}  // namespace

std::span<const KernelEntry> parts() {
  static constexpr KernelEntry kKernels[] = {
      {"concat", prepare_concat}, {"stack", prepare_stack},           {"split", prepare_split},
      {"slice", prepare_slice},   {"slice_grad", prepare_slice_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
