// Kernels of concat, stack and split, which copy several arrays into or out of one array with
// strides; of slice, which takes some elements along each axis; and of slice_grad, which writes
// zeros everywhere else.
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/strided_copy.h"

namespace flow::cpu::fast {
namespace {

using Integers = std::vector<int64_t>;

/// Returns the strides of `whole` along the axes of a part that lacks the axis `axis`.
Integers without_axis(Integers strides, int64_t axis) {
  strides.erase(strides.begin() + axis);
  return strides;
}

/// The direction of copies between several parts and one array: into the array or out of it.
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

Kernel prepare_concat(const Request& request) {
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

Kernel prepare_stack(const Request& request) {
  const int64_t axis = axis_of(request);
  const Integers whole = strides_of(request.outputs[0]), to = without_axis(whole, axis);
  std::vector<StridedCopy> parts;
  for (const TensorDesc& x : request.inputs)
    parts.emplace_back(size_of(x.dtype), axes_of(x.shape, strides_of(x), to), 0,
                       static_cast<int64_t>(parts.size()) * whole[static_cast<size_t>(axis)]);
  return copying_parts(request, Way::kTogether, std::move(parts));
}

Kernel prepare_split(const Request& request) {
  const Integers from = strides_of(request.inputs[0]);
  const auto axis = static_cast<size_t>(axis_of(request));
  std::vector<StridedCopy> parts;
  int64_t begin = 0;
  for (const int64_t size : integers(request, "sizes")) {
    // A part that no code reads has the description of another part, so its own description is not
    // needed.
    TensorDesc part = request.outputs[parts.size()];
    part.shape[static_cast<int>(axis)] = size;
    parts.emplace_back(size_of(part.dtype), axes_of(part.shape, from, strides_of(part)),
                       begin * from[axis], 0);
    begin += size;
  }
  return copying_parts(request, Way::kApart, std::move(parts));
}

using Axis = StridedCopy::Axis;

/// The elements that slice's attributes select from `x`, as loops over `x` and over `part`. The
/// axes of both that have more than one element are in the same order.
struct SliceLoops {
  std::vector<Axis> axes;
  int64_t offset = 0;  // the offset in x
};

SliceLoops slice_loops(const Request& request, const TensorDesc& x, const TensorDesc& part) {
  const Integers &starts = integers(request, "starts"), &steps = integers(request, "steps"),
                 &counts = integers(request, "counts");
  const Integers x_strides = strides_of(x), part_strides = strides_of(part);
  SliceLoops loops;
  int own = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    loops.offset += starts[i] * x_strides[i];
    if (counts[i] == 1) continue;
    while (part.shape[own] == 1) ++own;
    loops.axes.push_back(
        {counts[i], steps[i] * x_strides[i], part_strides[static_cast<size_t>(own)]});
    ++own;
  }
  return loops;
}

Kernel prepare_slice(const Request& request) {
  SliceLoops loops = slice_loops(request, request.inputs[0], request.outputs[0]);
  return copying(request, std::move(loops.axes), loops.offset);
}

Kernel prepare_slice_grad(const Request& request) {
  SliceLoops loops = slice_loops(request, request.outputs[0], request.inputs[0]);
  // Loops cannot write through a negative stride, so such an axis is traversed from its other end.
  int64_t from_offset = 0;
  for (Axis& axis : loops.axes) {
    std::swap(axis.from, axis.to);
    if (axis.to > 0) continue;
    loops.offset += (axis.extent - 1) * axis.to;
    from_offset += (axis.extent - 1) * axis.from;
    axis = {axis.extent, -axis.from, -axis.to};
  }
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
                   copy = StridedCopy(sizeof(float), std::move(loops.axes), from_offset,
                                      loops.offset)](const Buffers& buffers, const CallState&) {
    float* dx = output<float>(buffers, 0);
    for_pieces(threads, n, kPiece,
               [&](int64_t first, int64_t end) { std::fill(dx + first, dx + end, 0.0f); });
    copy.run(threads, buffers.inputs[0], buffers.outputs[0]);
  };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> parts() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "concat", .prepare = prepare_concat, .layouts = Layouts::kSame, .any_dtype = true},
      {.op = "stack", .prepare = prepare_stack, .any_dtype = true},
      {.op = "split", .prepare = prepare_split, .layouts = Layouts::kSame, .any_dtype = true},
      {.op = "slice", .prepare = prepare_slice, .layouts = Layouts::kSame, .any_dtype = true},
      {"slice_grad", prepare_slice_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
