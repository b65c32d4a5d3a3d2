// Reductions, shared by all devices. A reducer consists of the type Sum of its running value; of
// first(), the initial value; of term(x, result), the value of an element; of join(sum, sum), which
// combines two values; and of last(sum, result), the final value of result number `result`.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ops/binary/binary.h"
#include "runtime/base/element_types.h"

namespace flow::ops {

/// The sum of integers, which wraps around.
template <typename T>
struct IntegerSum {
  using Sum = uint64_t;
  FLOW_INLINE Sum first() const { return 0; }
  FLOW_INLINE Sum term(T x, int64_t) const { return static_cast<Sum>(x); }
  FLOW_INLINE Sum join(Sum a, Sum b) const { return a + b; }
  FLOW_INLINE T last(Sum sum, int64_t) const { return static_cast<T>(sum); }
};

/// The product, computed in double for floats. Integers wrap around.
template <typename T>
struct Product {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  FLOW_INLINE Sum first() const { return 1; }
  FLOW_INLINE Sum term(T x, int64_t) const { return static_cast<Sum>(x); }
  FLOW_INLINE Sum join(Sum a, Sum b) const { return a * b; }
  FLOW_INLINE T last(Sum sum, int64_t) const { return static_cast<T>(sum); }
};

/// The largest or smallest element, or NaN if any element is NaN. Choose is Maximum or Minimum.
template <typename T, template <typename> class Choose, bool kLargest>
struct Extreme {
  using Sum = T;
  /// Returns the value to which any element is preferred.
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

/// True if all elements are true or, without kAll, if any element is true. The running value is a
/// Flag.
template <bool kAll, typename Flag>
struct Truth {
  using Sum = Flag;
  FLOW_INLINE Sum first() const { return kAll; }
  FLOW_INLINE Sum term(bool x, int64_t) const { return x; }
  FLOW_INLINE Sum join(Sum a, Sum b) const { return kAll ? a & b : a | b; }
  FLOW_INLINE bool last(Sum sum, int64_t) const { return sum != 0; }
};

/// ln(sum e^(x - max)) + max. An infinite maximum is not subtracted and is the result.
template <typename T>
struct LogSumExp {
  using Sum = double;
  const T* max;  // the maximum for each result

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
