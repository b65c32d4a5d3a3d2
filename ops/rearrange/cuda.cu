// Kernels of tile, which repeats an array along its axes; of flip, which reverses the order of
// elements along axes; and of broadcast_to, which repeats an array to a larger shape.
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/map.cuh"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// y[i] = x[i mod the extents of x]
struct Repeats {
  int rank = 0;
  int64_t x[plan::kMaxRank] = {};                      // the extents of x
  Divider by_y[plan::kMaxRank], by_x[plan::kMaxRank];  // divide by the extents of y and of x
};

/// Repeats x over the n elements of y. REQUIRES: n fits Index.
template <typename Index, typename T>
__global__ void repeat(Repeats repeats, const T* x, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    Index rest = static_cast<Index>(i), from = 0, stride = 1;
    for (int axis = repeats.rank - 1; axis >= 0; --axis) {
      const Division<Index> own = repeats.by_y[axis].divide(rest);
      from += repeats.by_x[axis].divide(own.remainder).remainder * stride;
      stride *= static_cast<Index>(repeats.x[axis]);
      rest = own.quotient;
    }
    y[i] = x[from];
  }
}

Kernel prepare_tile(const Request& request) {
  const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
  Repeats repeats;
  repeats.rank = x.rank();
  for (int axis = 0; axis < x.rank(); ++axis) {
    repeats.x[axis] = x[axis];
    repeats.by_x[axis] = Divider(x[axis]);
    repeats.by_y[axis] = Divider(y[axis]);
  }
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    return {[repeats, n = y.elements()](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "tile", shape_for(n),
             n < kNarrow ? repeat<int32_t, T> : repeat<int64_t, T>, repeats, input<T>(buffers, 0),
             output<T>(buffers, 0), n);
    }};
  });
}

/// Returns loops over x, which start at its last element along the attribute's axes, and over the
/// result.
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

struct Copied {
  template <typename T>
  __device__ T operator()(T x) const {
    return x;
  }
};

Kernel prepare_broadcast_to(const Request& request) {
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    return {broadcast_launch<T, T>("broadcast_to", request, Copied{})};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::rearrange() {
  static constexpr KernelEntry kKernels[] = {
      {"tile", prepare_tile},
      {"flip", prepare_flip},
      {"broadcast_to", prepare_broadcast_to},
  };
  return kKernels;
}

}  // namespace flow::cuda
