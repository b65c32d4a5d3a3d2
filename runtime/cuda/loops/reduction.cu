// Sums over any axes, and the layout of a reduction on the device: a grid that fills the device
// regardless of the shape.
#include "runtime/cuda/loops/reduction.h"

#include <algorithm>

#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/reduce_tree.cuh"

namespace flow::cuda {
namespace {

template <typename T>
struct ScaledSum {
  using Sum = double;
  double factor;
  __device__ Sum first() const { return 0; }
  __device__ Sum term(T x, int64_t) const { return convert<Sum>(x); }
  __device__ Sum join(Sum a, Sum b) const { return a + b; }
  __device__ Wide<T> last(Sum sum, int64_t) const { return static_cast<Wide<T>>(factor * sum); }
};

/// Cuts the terms into even chunks, enough to turn `blocks` into a grid that fills a large device,
/// but at most one for every `least` terms.
void cut(ReduceLayout& layout, int64_t blocks, int64_t least) {
  constexpr int64_t kFull = 1024;
  const int64_t most = std::max<int64_t>(1, ceil_div(kFull, blocks));
  layout.chunks = std::clamp<int64_t>(ceil_div(layout.terms, least), 1, most);
  layout.chunk = ceil_div(layout.terms, layout.chunks);
}

}  // namespace

Reduction::Reduction(const TensorDesc& x, const std::vector<bool>& reduced)
    : dtype_(x.dtype), plan_(x.shape, reduced) {}

Launch Reduction::sum(double factor) const {
  return visit_any_float(dtype_, [&]<typename T>(T) -> Launch {
    return [factor, plan = plan_](const Buffers& buffers, const LaunchState& state) {
      launch_reduce("sum", ScaledSum<T>{factor}, plan, input<T>(buffers, 0),
                    output<Wide<T>>(buffers, 0), buffers.workspace, state);
    };
  });
}

ReducePlan::ReducePlan(const Shape& x, const std::vector<bool>& reduced) {
  bool innermost_reduced = false;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool is_reduced = reduced[static_cast<size_t>(axis)];
    (is_reduced ? layout.reduced : layout.kept).add(x[axis], {stride_of(x, axis)});
    if (x[axis] > 1) innermost_reduced = is_reduced;
  }
  layout.outputs = layout.kept.elements();
  layout.terms = layout.reduced.elements();
  by_rows = innermost_reduced && layout.terms >= kWarp;
  threads = layout.terms >= 4 * kThreads ? kThreads : kWarp;
  if (by_rows)
    cut(layout, layout.outputs, 8 * kThreads);
  else
    cut(layout, ceil_div(layout.outputs, kReduceColumns), 32 * kReduceRows);
}

size_t ReducePlan::workspace(size_t sum_bytes) const {
  return layout.chunks == 1 ? 0 : static_cast<size_t>(layout.outputs * layout.chunks) * sum_bytes;
}

LaunchShape ReducePlan::shape(size_t sum_bytes) const {
  const auto chunks = static_cast<unsigned>(layout.chunks), wide = static_cast<unsigned>(threads);
  if (by_rows) return {{blocks_for(layout.outputs), chunks}, {wide}, wide / kWarp * sum_bytes};
  return {{blocks_for(ceil_div(layout.outputs, kReduceColumns)), chunks},
          {kReduceColumns, kReduceRows},
          kReduceColumns * kReduceRows * sum_bytes};
}

LaunchShape ReducePlan::joining_shape() const {
  return {{blocks_for(layout.outputs)}, {static_cast<unsigned>(kWarp)}};
}

std::vector<bool> reduced_axes(const Request& request, const Shape& x) {
  std::vector<bool> reduced(static_cast<size_t>(x.rank()), false);
  for (int64_t axis : attribute<std::vector<int64_t>>(request, "axes"))
    reduced[static_cast<size_t>(axis)] = true;
  return reduced;
}

}  // namespace flow::cuda
