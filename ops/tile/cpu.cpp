// tile: an array repeated along its axes.
#include "ops/core/cpu_strided_kernel.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/broadcast.h"

namespace flow::cpu::fast {
namespace {

using Integers = std::vector<int64_t>;

/// Each axis of the result is two: the copies, and what is copied.
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

}  // namespace

std::span<const KernelEntry> tile() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "tile", .prepare = prepare_tile, .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
