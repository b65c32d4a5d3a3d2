// Kernels of concat and stack, which join arrays along an axis; of split, which divides an array;
// of slice, which takes a part of an array; and of slice_grad, which writes the gradient in place
// of that part and zeros elsewhere.
#include <utility>

#include "runtime/base/array.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/map.cuh"

namespace flow::cuda {
namespace {

/// Returns loops over a part that is stored in C order within the whole along `axis`. If
/// `whole_first` is set, the first array of the loops is the whole and the second is the part;
/// otherwise the order is reversed.
Loops<2> part_loops(const Shape& part, const Shape& whole, bool whole_first) {
  Loops<2> loops;
  for (int axis = 0; axis < part.rank(); ++axis) {
    const int64_t own = stride_of(part, axis), there = stride_of(whole, axis);
    loops.add(part[axis], whole_first ? std::array{there, own} : std::array{own, there});
  }
  return loops;
}

/// Joins parts of shape [outer, extent, inner] along their middle axis, or splits an array into
/// them.
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

/// Returns the parts with these extents along `axis` of `whole`.
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

/// Returns loops over the elements that slice's attributes select from `x` and over the part in C
/// order.
ArrayPart sliced_part(const Request& request, const Shape& x, bool into_x) {
  const Shape counts(attribute<std::vector<int64_t>>(request, "counts"));
  ArrayPart sliced{{}, 0};
  for (int axis = 0; axis < counts.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t stride = stride_of(x, axis), own = stride_of(counts, axis);
    const int64_t step = attribute<std::vector<int64_t>>(request, "steps")[i] * stride;
    sliced.begin += attribute<std::vector<int64_t>>(request, "starts")[i] * stride;
    sliced.loops.add(counts[axis], into_x ? std::array{own, step} : std::array{step, own});
  }
  return sliced;
}

Kernel prepare_slice(const Request& request) {
  const ArrayPart sliced = sliced_part(request, request.inputs[0].shape, false);
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    return {[sliced](const Buffers& buffers, const LaunchState& state) {
      launch_copy(state, "slice", sliced.loops, input<T>(buffers, 0) + sliced.begin,
                  output<T>(buffers, 0));
    }};
  });
}

Kernel prepare_slice_grad(const Request& request) {
  const TensorDesc& dx = request.outputs[0];
  const ArrayPart sliced = sliced_part(request, dx.shape, true);
  const size_t bytes = bytes_of(dx.shape, dx.dtype);
  return visit_float(dx.dtype, [&]<typename T>(T) -> Kernel {
    return {[sliced, bytes](const Buffers& buffers, const LaunchState& state) {
      state.driver.clear(buffers.outputs[0], bytes, state.stream);
      launch_copy(state, "slice_grad", sliced.loops, input<T>(buffers, 0),
                  output<T>(buffers, 0) + sliced.begin);
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::parts() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "concat", .prepare = prepare_concat, .channels_last = ChannelsLast::kAxis},
      {"stack", prepare_stack},
      {"split", prepare_split},
      {"slice", prepare_slice},
      {"slice_grad", prepare_slice_grad},
  };
  return kKernels;
}

}  // namespace flow::cuda
