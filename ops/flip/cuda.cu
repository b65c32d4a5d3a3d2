// flip: the elements in reverse order along axes.
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/strided_copy.cuh"

namespace flow::cuda {
namespace {

/// Loops over x, read from its last element on along the axes, and over the result.
ArrayPart flipped(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto& axes = attribute<std::vector<int64_t>>(request, "axes");
  ArrayPart part{{}, 0};
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t stride = stride_of(x, axis);
    const bool reversed = std::ranges::count(axes, int64_t{axis}) > 0;
    if (reversed) part.begin += (x[axis] - 1) * stride;
    part.loops.add(x[axis], {reversed ? -stride : stride, stride});
  }
  return part;
}

Kernel prepare_flip(const Request& request) {
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    return {[part = flipped(request)](const Buffers& buffers, const LaunchState& state) {
      launch_copy(state, "flip", part.loops, input<T>(buffers, 0) + part.begin,
                  output<T>(buffers, 0));
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::flip() {
  static constexpr KernelEntry kKernels[] = {
      {"flip", prepare_flip},
  };
  return kKernels;
}

}  // namespace flow::cuda
