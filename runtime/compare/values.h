// The elements of arrays as doubles, how they lie in memory (what statistics and looks compute
// with), and how the error of an array is distributed: over its elements, and along its axes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/array.h"

namespace flow::compare {

using Doubles = std::vector<double>;

/// All elements, in C order; integers beyond 53 bits are rounded.
Doubles doubles_of(const ArrayView& array);

/// Indices of each axis of the element at `flat`.
std::vector<int64_t> index_of(int64_t flat, const Shape& shape);

/// The product of the extents after `axis`.
int64_t stride_of(const Shape& shape, int axis);

/// The sum at each index of `axis`, over all other axes. `values`: of that shape, in C order.
std::vector<double> sums_along(const Doubles& values, const Shape& shape, int axis);

/// out - golden where that is finite, else 0, divided by the largest so that squares neither
/// overflow nor vanish. All 0 where nothing differs.
struct Errors {
  Errors(const Doubles& golden, const Doubles& out);
  /// The square of `residual` in the unit of `squares`.
  double square(double residual) const { return (residual / peak) * (residual / peak); }

  Doubles squares;   // by element
  double peak = 0;   // the largest |out - golden|
  double total = 0;  // of the squares
  int64_t finite = 0;
};

struct ErrorProfile {
  /// Of |out - golden| between finite values, interpolated as NumPy's `percentile` does.
  double median = 0, percentile_90 = 0, percentile_99 = 0;
  /// Of each axis the index with most of the sum of squared errors, and its share of it.
  struct WorstIndex {
    int axis = 0;
    int64_t index = 0;
    double share = 0;
  };
  std::vector<WorstIndex> axes;  // those with two indices or more
};

/// Nothing where no two finite values differ, and of arrays of more than 8 Mi elements.
/// REQUIRES: dtype and shape agree.
std::optional<ErrorProfile> profile_errors(const ArrayView& golden, const ArrayView& out);

}  // namespace flow::compare
