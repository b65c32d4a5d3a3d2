// transpose, concat, stack, split, slice, tile: elements moved to other places, all by strided
// copies.
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/strided_copy.h"

namespace flow::cpu::fast {
namespace {

using Integers = std::vector<int64_t>;
using Axis = StridedCopy::Axis;

const Integers& integers(const Request& request, std::string_view name) {
  return request.step.attributes.get<Integers>(name);
}

Kernel copying(const Request& request, std::vector<Axis> axes, int64_t from_offset) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, copy = StridedCopy(size_of(request.inputs[0].dtype),
                                                                 std::move(axes), from_offset, 0)](
                      const Buffers& buffers, const CallState&) {
    copy.run(threads, buffers.inputs[0], buffers.outputs[0]);
  };
  return kernel;
}

/// The distances of `whole` along the axes of a part that has not its axis `axis`.
Integers without_axis(Integers strides, int64_t axis) {
  strides.erase(strides.begin() + axis);
  return strides;
}

/// A copy for each of several parts of one array: into it, or out of it.
enum class Way { kTogether, kApart };

Kernel copying_parts(const Request& request, Way way, std::vector<StridedCopy> parts) {
  Kernel kernel;
  kernel.launch = [way, threads = request.threads, parts = std::move(parts)](const Buffers& buffers,
                                                                             const CallState&) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (way == Way::kTogether)
        parts[i].run(threads, buffers.inputs[i], buffers.outputs[0]);
      else if (buffers.outputs[i])
        parts[i].run(threads, buffers.inputs[0], buffers.outputs[i]);
    }
  };
  return kernel;
}

/// What slice's attributes take of `x`, as loops over it and `part`, whose axes of more than one
/// element are in the same order.
struct Taken {
  std::vector<Axis> axes;
  int64_t offset = 0;  // in x
};

Taken taken_of(const Request& request, const TensorDesc& x, const TensorDesc& part) {
  const Integers &starts = integers(request, "starts"), &steps = integers(request, "steps"),
                 &counts = integers(request, "counts");
  const Integers x_strides = strides_of(x), part_strides = strides_of(part);
  Taken taken;
  int own = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    taken.offset += starts[i] * x_strides[i];
    if (counts[i] == 1) continue;
    while (part.shape[own] == 1) ++own;
    taken.axes.push_back(
        {counts[i], steps[i] * x_strides[i], part_strides[static_cast<size_t>(own)]});
    ++own;
  }
  return taken;
}

}  // namespace

Kernel transpose(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  const Integers strides = strides_of(x);
  Integers from;
  for (const int64_t axis : integers(request, "perm"))
    from.push_back(strides[static_cast<size_t>(axis)]);
  return copying(request, axes_of(y.shape, from, strides_of(y)), 0);
}

Kernel concat(const Request& request) {
  const Integers to = strides_of(request.outputs[0]);
  const auto axis = static_cast<size_t>(axis_of(request));
  std::vector<StridedCopy> parts;
  int64_t begin = 0;
  for (const TensorDesc& x : request.inputs) {
    parts.emplace_back(size_of(x.dtype), axes_of(x.shape, strides_of(x), to), 0, begin * to[axis]);
    begin += x.shape[static_cast<int>(axis)];
  }
  return copying_parts(request, Way::kTogether, std::move(parts));
}

Kernel stack(const Request& request) {
  const int64_t axis = axis_of(request);
  const Integers whole = strides_of(request.outputs[0]), to = without_axis(whole, axis);
  std::vector<StridedCopy> parts;
  for (const TensorDesc& x : request.inputs)
    parts.emplace_back(size_of(x.dtype), axes_of(x.shape, strides_of(x), to), 0,
                       static_cast<int64_t>(parts.size()) * whole[static_cast<size_t>(axis)]);
  return copying_parts(request, Way::kTogether, std::move(parts));
}

Kernel split(const Request& request) {
  const Integers from = strides_of(request.inputs[0]);
  const auto axis = static_cast<size_t>(axis_of(request));
  std::vector<StridedCopy> parts;
  int64_t begin = 0;
  for (const int64_t size : integers(request, "sizes")) {
    // The description of a part that nobody reads is another's; its own is not needed then.
    TensorDesc part = request.outputs[parts.size()];
    part.shape[static_cast<int>(axis)] = size;
    parts.emplace_back(size_of(part.dtype), axes_of(part.shape, from, strides_of(part)),
                       begin * from[axis], 0);
    begin += size;
  }
  return copying_parts(request, Way::kApart, std::move(parts));
}

Kernel slice(const Request& request) {
  Taken taken = taken_of(request, request.inputs[0], request.outputs[0]);
  return copying(request, std::move(taken.axes), taken.offset);
}

Kernel slice_grad(const Request& request) {
  Taken taken = taken_of(request, request.outputs[0], request.inputs[0]);
  // A negative distance would be written: walk that axis from its other end.
  int64_t from_offset = 0;
  for (Axis& axis : taken.axes) {
    std::swap(axis.from, axis.to);
    if (axis.to > 0) continue;
    taken.offset += (axis.extent - 1) * axis.to;
    from_offset += (axis.extent - 1) * axis.from;
    axis = {axis.extent, -axis.from, -axis.to};
  }
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
                   copy = StridedCopy(sizeof(float), std::move(taken.axes), from_offset,
                                      taken.offset)](const Buffers& buffers, const CallState&) {
    float* dx = output<float>(buffers, 0);
    for_pieces(threads, n, kPiece,
               [&](int64_t first, int64_t end) { std::fill(dx + first, dx + end, 0.0f); });
    copy.run(threads, buffers.inputs[0], buffers.outputs[0]);
  };
  return kernel;
}

/// Each axis of the result is two: the copies, and what is copied.
Kernel tile(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  const Integers from = strides_of(x), to = strides_of(y);
  std::vector<Axis> axes;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t extent = x.shape[static_cast<int>(i)];
    axes.push_back({integers(request, "multiples")[i], 0, to[i] * extent});
    axes.push_back({extent, from[i], to[i]});
  }
  return copying(request, std::move(axes), 0);
}

}  // namespace flow::cpu::fast
