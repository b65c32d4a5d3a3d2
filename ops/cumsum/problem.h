// Cumulative sums and products along an axis, computed from one end to the other. Floats are added
// and multiplied in double; integers wrap around.
#pragma once

#include <type_traits>

#include "ops/core/along_axis.h"
#include "runtime/base/vector_math.h"

namespace flow::ops {

struct Scan : AlongAxis {
  bool exclusive, reverse;

  Scan(const Shape& shape, const Attributes& attributes)
      : AlongAxis(shape, attributes),
        exclusive(attributes.get<bool>("exclusive")),
        reverse(attributes.get<bool>("reverse")) {}

  /// The offset from one element of a column to the next in the order of the scan.
  FLOW_HOST_DEVICE int64_t step() const { return reverse ? -inner : inner; }
  /// The offset from the first element of a column in memory to the element at which the scan
  /// starts.
  FLOW_HOST_DEVICE int64_t first() const { return reverse ? (n - 1) * inner : 0; }
};

template <typename T>
using ScanValue = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

struct ScanSum {
  static constexpr int kFirst = 0;
  template <typename T>
  FLOW_INLINE T operator()(T a, T b) const {
    return a + b;
  }
};

struct ScanProduct {
  static constexpr int kFirst = 1;
  template <typename T>
  FLOW_INLINE T operator()(T a, T b) const {
    return a * b;
  }
};

}  // namespace flow::ops
