// Kernels of tile, which repeats an array along its axes; of flip, which reverses the order of
// elements along axes; and of broadcast_to, which repeats an array to a larger shape.
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/strided_copy.h"

namespace flow::cpu::fast {
namespace {

using Integers = std::vector<int64_t>;

/// Divides each axis of the result into two: one for the copies, and one for the copied elements.
Kernel prepare_tile(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  const Integers from = strides_of(x), to = strides_of(y);
  std::vector<StridedCopy::Axis> axes;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t extent = x.shape[static_cast<int>(i)];
    axes.push_back({integers(request, "multiples")[i], 0, to[i] * extent});
    axes.push_back({extent, from[i], to[i]});
  }
  return copying(request, std::move(axes), 0);
}

/// Reads the operand from its last element to its first along the attribute's axes.
Kernel prepare_flip(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  std::vector<int64_t> from = strides_of(x);
  int64_t first = 0;
  for (const int64_t axis : integers(request, "axes")) {
    int64_t& stride = from[static_cast<size_t>(axis)];
    first += (x.shape[static_cast<int>(axis)] - 1) * stride;
    stride = -stride;
  }
  return copying(request, axes_of(y.shape, from, strides_of(y)), first);
}

Kernel prepare_broadcast_to(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  return copying(request, axes_of(y.shape, broadcast_strides(x, y.shape.rank()), strides_of(y)), 0);
}

}  // namespace

std::span<const KernelEntry> rearrange() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "tile", .prepare = prepare_tile, .any_dtype = true},
      {.op = "flip", .prepare = prepare_flip, .layouts = Layouts::kSame, .any_dtype = true},
      {.op = "broadcast_to", .prepare = prepare_broadcast_to, .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
