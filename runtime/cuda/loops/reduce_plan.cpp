// How a reduction is laid out on the device: a grid that fills it, whatever the shape.
#include "runtime/cuda/loops/reduce_plan.h"

#include <algorithm>

#include "runtime/base/ceil_div.h"
#include "runtime/cuda/loops/operands.h"

namespace flow::cuda {
namespace {

/// Enough even chunks to make `blocks` into a grid that fills a large device, but one for every
/// `least` terms at most.
void cut(Folds& folds, int64_t blocks, int64_t least) {
  constexpr int64_t kFull = 1024;
  const int64_t most = std::max<int64_t>(1, ceil_div(kFull, blocks));
  folds.chunks = std::clamp<int64_t>(ceil_div(folds.terms, least), 1, most);
  folds.chunk = ceil_div(folds.terms, folds.chunks);
}

}  // namespace

FoldPlan::FoldPlan(const Shape& x, const std::vector<bool>& reduced) {
  bool innermost_reduced = false;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool folded = reduced[static_cast<size_t>(axis)];
    (folded ? folds.reduced : folds.kept).add(x[axis], {stride_of(x, axis)});
    if (x[axis] > 1) innermost_reduced = folded;
  }
  folds.outputs = folds.kept.elements();
  folds.terms = folds.reduced.elements();
  by_rows = innermost_reduced && folds.terms >= kWarp;
  threads = folds.terms >= 4 * kThreads ? kThreads : kWarp;
  if (by_rows)
    cut(folds, folds.outputs, 8 * kThreads);
  else
    cut(folds, ceil_div(folds.outputs, kFoldColumns), 32 * kFoldRows);
}

size_t FoldPlan::workspace(size_t sum_bytes) const {
  return folds.chunks == 1 ? 0 : static_cast<size_t>(folds.outputs * folds.chunks) * sum_bytes;
}

LaunchShape FoldPlan::shape(size_t sum_bytes) const {
  const auto chunks = static_cast<unsigned>(folds.chunks), wide = static_cast<unsigned>(threads);
  if (by_rows) return {{blocks_for(folds.outputs), chunks}, {wide}, wide / kWarp * sum_bytes};
  return {{blocks_for(ceil_div(folds.outputs, kFoldColumns)), chunks},
          {kFoldColumns, kFoldRows},
          kFoldColumns * kFoldRows * sum_bytes};
}

LaunchShape FoldPlan::joining_shape() const {
  return {{blocks_for(folds.outputs)}, {static_cast<unsigned>(kWarp)}};
}

std::vector<bool> reduced_axes(const Request& request, const Shape& x) {
  std::vector<bool> reduced(static_cast<size_t>(x.rank()), false);
  for (int64_t axis : attribute<std::vector<int64_t>>(request, "axes"))
    reduced[static_cast<size_t>(axis)] = true;
  return reduced;
}

}  // namespace flow::cuda
