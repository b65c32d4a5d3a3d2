// The layout of a reduction on the device, and sums over any axes. Sums use fixed trees in float64,
// so that results are bit-identical in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/launch.h"
#include "runtime/cuda/loops/loops.h"

namespace flow::cuda {

/// A grid of results: there are `outputs` results of `terms` elements each, computed in `chunks`
/// parts.
struct ReduceLayout {
  // The offset of an output's first element, and the offsets of its elements relative to that.
  Loops<1> kept, reduced;
  int64_t outputs = 1, terms = 1;
  int64_t chunk = 1, chunks = 1;  // the number of terms of a part; the number of parts of a result
};

// threads of a block if by_rows is not set
inline constexpr int kReduceColumns = 32, kReduceRows = 8;

/// Depends only on shapes. If there are few results, each is cut into chunks, which a second kernel
/// joins. Neighboring threads read neighboring elements: terms of one result if the innermost axis
/// is reduced, terms of different results if it is kept.
struct ReducePlan {
  /// Reduces the axes of `x` that are set in `reduced`. The result has the remaining axes in order.
  ReducePlan(const Shape& x, const std::vector<bool>& reduced);

  /// Returns the workspace in bytes for partial sums of `sum_bytes` bytes each.
  size_t workspace(size_t sum_bytes) const;
  LaunchShape shape(size_t sum_bytes) const;
  LaunchShape joining_shape() const;

  ReduceLayout layout;
  // True if a block reduces adjacent terms; false if its threads have adjacent outputs.
  bool by_rows = false;
  int threads = 0;  // threads of a block if by_rows is set
};

/// Returns, for each axis of `x`, whether the step's attribute `axes` lists it.
std::vector<bool> reduced_axes(const Request& request, const Shape& x);

/// A sum over some axes. The way it is computed depends only on shapes.
class Reduction {
 public:
  /// Sums over the axes of `x` that are set in `reduced`. The result has the remaining axes in
  /// order.
  Reduction(const TensorDesc& x, const std::vector<bool>& reduced);

  int64_t terms() const { return plan_.layout.terms; }  // the number of terms of one sum
  size_t workspace() const { return plan_.workspace(sizeof(double)); }
  /// out = factor * the sums of x, in float32 if x has 16 bits. REQUIRES: x and out do not overlap.
  Launch sum(double factor) const;

 private:
  DType dtype_;
  ReducePlan plan_;
};

}  // namespace flow::cuda
