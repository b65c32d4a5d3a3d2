// The elements of arrays as doubles, and how they lie in memory: what statistics and looks compute
// with.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/array.h"

namespace flow::compare {

using Doubles = std::vector<double>;

/// All elements, in C order; integers beyond 53 bits are rounded.
Doubles doubles_of(const ArrayView& array);

/// Indices of each axis of the element at `flat`.
std::vector<int64_t> index_of(int64_t flat, const Shape& shape);

/// The product of the extents behind `axis`.
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

}  // namespace flow::compare
