// concat and stack, which join arrays along an axis, and split, which cuts one.
#include <utility>

#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/strided_copy.cuh"

namespace flow::cuda {
namespace {

/// Loops over a part that lies in C order beside others along `axis` of the whole. `whole_first`:
/// the loops run over the whole, then over the part.
Loops<2> part_loops(const Shape& part, const Shape& whole, bool whole_first) {
  Loops<2> loops;
  for (int axis = 0; axis < part.rank(); ++axis) {
    const int64_t own = stride_of(part, axis), there = stride_of(whole, axis);
    loops.add(part[axis], whole_first ? std::array{there, own} : std::array{own, there});
  }
  return loops;
}

/// Joins [outer, extent, inner] parts along their middle axis, or cuts them.
Launch join_launch(const char* name, DType dtype, std::vector<ArrayPart> parts, bool together) {
  return visit_size(size_of(dtype), [&]<typename T>(T) -> Launch {
    return [=, parts = std::move(parts)](const Buffers& buffers, const LaunchState& state) {
      for (size_t i = 0; i < parts.size(); ++i) {
        if (together)
          launch_copy(state, name, parts[i].loops, input<T>(buffers, i),
                      output<T>(buffers, 0) + parts[i].begin);
        else if (buffers.outputs[i])
          launch_copy(state, name, parts[i].loops, input<T>(buffers, 0) + parts[i].begin,
                      output<T>(buffers, i));
      }
    };
  });
}

/// Parts of these extents along `axis` of `whole`.
std::vector<ArrayPart> parts_of(const Shape& whole, int axis, const std::vector<int64_t>& sizes,
                                bool together) {
  std::vector<ArrayPart> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    Shape part = whole;
    part[axis] = size;
    parts.push_back({part_loops(part, whole, !together), begin * stride_of(whole, axis)});
    begin += size;
  }
  return parts;
}

Kernel prepare_concat(const Request& request) {
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  std::vector<int64_t> sizes;
  for (const TensorDesc& x : request.inputs) sizes.push_back(x.shape[axis]);
  return {join_launch("concat", request.inputs[0].dtype,
                      parts_of(request.outputs[0].shape, axis, sizes, true), true)};
}

Kernel prepare_stack(const Request& request) {
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  const std::vector<int64_t> sizes(request.inputs.size(), 1);
  return {join_launch("stack", request.inputs[0].dtype,
                      parts_of(request.outputs[0].shape, axis, sizes, true), true)};
}

Kernel prepare_split(const Request& request) {
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  return {join_launch("split", request.inputs[0].dtype,
                      parts_of(request.inputs[0].shape, axis,
                               attribute<std::vector<int64_t>>(request, "sizes"), false),
                      false)};
}

}  // namespace

std::span<const KernelEntry> kernels::concat() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "concat", .prepare = prepare_concat, .channels_last = ChannelsLast::kAxis},
      {"stack", prepare_stack},
      {"split", prepare_split},
  };
  return kKernels;
}

}  // namespace flow::cuda
