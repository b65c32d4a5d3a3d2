// How a reduction is laid out on the device; and sums over any axes, the same bits in every run:
// fixed trees, in float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/launch.h"
#include "runtime/cuda/loops/loops.h"

namespace flow::cuda {

/// A grid of results: `outputs` of them, of `terms` elements each, in `chunks` parts.
struct ReduceLayout {
  Loops<1> kept, reduced;  // where an output's first element lies; its others, from there
  int64_t outputs = 1, terms = 1;
  int64_t chunk = 1, chunks = 1;  // terms of a part; parts of a result
};

inline constexpr int kReduceColumns = 32, kReduceRows = 8;  // threads of a block by columns

/// Depends on shapes alone. Where there are few results, each is cut into chunks, which a second
/// kernel joins. Neighboring threads read neighboring elements: terms of one result where the
/// innermost axis is reduced, of different results where it is kept.
struct ReducePlan {
  /// Reduces the axes of `x` that are set in `reduced`. The result has the others, in order.
  ReducePlan(const Shape& x, const std::vector<bool>& reduced);

  /// Bytes, for parts of `sum_bytes`.
  size_t workspace(size_t sum_bytes) const;
  LaunchShape shape(size_t sum_bytes) const;
  LaunchShape joining_shape() const;

  ReduceLayout layout;
  bool by_rows = false;  // a block reduces adjacent terms; else its threads have adjacent outputs
  int threads = 0;       // of a block by rows
};

/// By axis of `x`: does the step's attribute `axes` list it?
std::vector<bool> reduced_axes(const Request& request, const Shape& x);

/// How sums are computed depends on shapes alone.
class Reduction {
 public:
  /// Sums over the axes of `x` that are set in `reduced`. The result has the others, in order.
  Reduction(const TensorDesc& x, const std::vector<bool>& reduced);

  int64_t terms() const { return plan_.layout.terms; }  // that go into one sum
  size_t workspace() const { return plan_.workspace(sizeof(double)); }
  /// out = factor * the sums of x, in float32 where x has 16 bits. REQUIRES: x and out do not
  /// overlap.
  Launch sum(double factor) const;

 private:
  DType dtype_;
  ReducePlan plan_;
};

}  // namespace flow::cuda
