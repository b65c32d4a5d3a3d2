// The axes of a reduction: neighbours of one kind are merged.
#include "runtime/cpu/loops/reduced_axes.h"

#include "runtime/base/ceil_div.h"
#include "runtime/cpu/loops/broadcast.h"

namespace flow::cpu {
namespace {

std::vector<bool> listed_axes(const Request& request, const TensorDesc& desc) {
  std::vector<bool> reduced(static_cast<size_t>(desc.shape.rank()), false);
  for (int64_t axis : request.step.attributes.get<std::vector<int64_t>>("axes"))
    reduced[static_cast<size_t>(axis)] = true;
  return reduced;
}

}  // namespace

ReducedAxes::ReducedAxes(const Request& request, size_t operand)
    : ReducedAxes(request.inputs[operand], listed_axes(request, request.inputs[operand])) {}

ReducedAxes::ReducedAxes(const TensorDesc& desc, const std::vector<bool>& reduced) {
  struct Axis {
    int64_t extent, stride;
    bool reduced;
  };
  std::vector<Axis> axes;
  const std::vector<int64_t> strides = strides_of(desc);
  for (int logical : memory_order(desc)) {
    const auto i = static_cast<size_t>(logical);
    const Axis axis{desc.shape[logical], strides[i], reduced[i]};
    if (axis.extent == 1) continue;
    if (!axes.empty() && axes.back().reduced == axis.reduced)
      axes.back() = {axes.back().extent * axis.extent, axis.stride, axis.reduced};
    else
      axes.push_back(axis);
  }
  if (!axes.empty()) {
    (axes.back().reduced ? run : columns) = axes.back().extent;
    axes.pop_back();
  }
  for (const Axis& axis : axes) {
    (axis.reduced ? reduced_ : kept_).push_back({axis.extent, axis.stride});
    (axis.reduced ? runs : outer) *= axis.extent;
  }
  chunk = run > 1 ? kElementsPerChunk : kRowsPerChunk;
  chunks = ceil_div(reduced_elements(), chunk);
}

int64_t ReducedAxes::offset_of(const std::vector<Loop>& loops, int64_t index) {
  if (loops.empty()) return 0;
  int64_t offset = 0;
  for (size_t i = loops.size(); i-- > 1;) {
    offset += index % loops[i].extent * loops[i].stride;
    index /= loops[i].extent;
  }
  return offset + index * loops[0].stride;
}

}  // namespace flow::cpu
