// slice: some elements along each axis. slice_grad: their gradients, zeros elsewhere.
#include "ops/core/cpu_strided_kernel.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

using Integers = std::vector<int64_t>;

using Axis = StridedCopy::Axis;

/// What slice's attributes take of `x`, as loops over it and `part`, whose axes of more than one
/// element are in the same order.
struct SliceLoops {
  std::vector<Axis> axes;
  int64_t offset = 0;  // in x
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
  // A negative distance would be written: walk that axis from its other end.
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

std::span<const KernelEntry> slice() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "slice", .prepare = prepare_slice, .layouts = Layouts::kSame, .any_dtype = true},
      {"slice_grad", prepare_slice_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
