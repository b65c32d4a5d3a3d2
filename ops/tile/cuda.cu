// tile: an array repeated along its axes.
#include "runtime/cuda/loops/divider.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// y[i] = x[i mod the extents of x]
struct Repeats {
  int rank = 0;
  int64_t x[plan::kMaxRank] = {};                      // extents
  Divider by_y[plan::kMaxRank], by_x[plan::kMaxRank];  // by extents
};

/// Index holds n.
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

}  // namespace

std::span<const KernelEntry> kernels::tile() {
  static constexpr KernelEntry kKernels[] = {
      {"tile", prepare_tile},
  };
  return kKernels;
}

}  // namespace flow::cuda
