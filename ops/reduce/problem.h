// Reductions as all devices compute them. A reducer is an operation: Sum (what is carried along),
// first() (of nothing), term(x, result) of an element, join(sum, sum), and last(sum, result), the
// result of that number.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ops/binary/binary.h"
#include "runtime/base/element_types.h"

namespace flow::ops {

/// Integers wrap around.
template <typename T>
struct IntegerSum {
  using Sum = uint64_t;
  FLOW_INLINE Sum first() const { return 0; }
  FLOW_INLINE Sum term(T x, int64_t) const { return static_cast<Sum>(x); }
  FLOW_INLINE Sum join(Sum a, Sum b) const { return a + b; }
  FLOW_INLINE T last(Sum sum, int64_t) const { return static_cast<T>(sum); }
};

/// Of floats in double; integers wrap around.
template <typename T>
struct Product {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  FLOW_INLINE Sum first() const { return 1; }
  FLOW_INLINE Sum term(T x, int64_t) const { return static_cast<Sum>(x); }
  FLOW_INLINE Sum join(Sum a, Sum b) const { return a * b; }
  FLOW_INLINE T last(Sum sum, int64_t) const { return static_cast<T>(sum); }
};

/// NaN where one is. Choose is Maximum or Minimum.
template <typename T, template <typename> class Choose, bool kLargest>
struct Extreme {
  using Sum = T;
  /// What all others are chosen before.
  FLOW_INLINE Sum first() const {
    if constexpr (std::is_integral_v<T>)
      return kLargest ? RangeOf<T>::kLeast : RangeOf<T>::kMost;
    else
      return static_cast<T>(kLargest ? -math::kInfinity : math::kInfinity);
  }
  FLOW_INLINE Sum term(T x, int64_t) const { return x; }
  FLOW_INLINE Sum join(Sum a, Sum b) const { return Choose<T>{}(a, b); }
  FLOW_INLINE T last(Sum sum, int64_t) const { return sum; }
};

template <typename T>
using Largest = Extreme<T, functions::Maximum, true>;
template <typename T>
using Smallest = Extreme<T, functions::Minimum, false>;

/// Whether none is false, or, without kAll, whether some are true. Carries a Flag.
template <bool kAll, typename Flag>
struct Truth {
  using Sum = Flag;
  FLOW_INLINE Sum first() const { return kAll; }
  FLOW_INLINE Sum term(bool x, int64_t) const { return x; }
  FLOW_INLINE Sum join(Sum a, Sum b) const { return kAll ? a & b : a | b; }
  FLOW_INLINE bool last(Sum sum, int64_t) const { return sum != 0; }
};

/// ln(sum e^(x - max)) + max. No difference is taken from an infinite maximum, the result then.
template <typename T>
struct LogSumExp {
  using Sum = double;
  const T* max;  // of each result

  FLOW_INLINE T shift(int64_t result) const {
    const T m = max[result];
    return m - m == T{0} ? m : T{0};
  }
  FLOW_INLINE Sum first() const { return 0; }
  FLOW_INLINE Sum term(T x, int64_t result) const {
    return static_cast<double>(math::exp(x - shift(result)));
  }
  FLOW_INLINE Sum join(Sum a, Sum b) const { return a + b; }
  FLOW_INLINE T last(Sum sum, int64_t result) const {
    return static_cast<T>(std::log(sum) + static_cast<double>(shift(result)));
  }
};

}  // namespace flow::ops
