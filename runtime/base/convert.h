// One element from any dtype to any other, as `cast` does it.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/base/half.h"
#include "runtime/base/host_device.h"
#include "runtime/base/visit.h"

namespace flow {

/// Constants, since device code cannot call std::numeric_limits.
template <typename T>
struct RangeOf {
  static constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
};

/// Rounds to the nearest float, ties to even; truncates to an integer, and takes the nearest there
/// is where the value is out of range (0 for NaN); anything but 0 is true.
template <typename To, typename From>
FLOW_HOST_DEVICE To convert(From value) {
  using Range = RangeOf<To>;  // of an integer
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Float16>) {
    return convert<To>(float16_to_float(value.bits));
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return convert<To>(bfloat16_to_float(value.bits));
  } else if constexpr (std::is_same_v<To, BFloat16> && std::is_same_v<From, float>) {
    return {float_to_bfloat16(value)};
  } else if constexpr (std::is_same_v<To, Float16> && std::is_same_v<From, float>) {
    return {float_to_float16(value)};
  } else if constexpr (std::is_same_v<To, Float16>) {
    return {double_to_float16(static_cast<double>(value))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return {double_to_bfloat16(static_cast<double>(value))};
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<To> || std::is_same_v<From, bool>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_integral_v<From>) {
    if (static_cast<int64_t>(value) < static_cast<int64_t>(Range::kLeast)) return Range::kLeast;
    if (static_cast<int64_t>(value) > static_cast<int64_t>(Range::kMost)) return Range::kMost;
    return static_cast<To>(value);
  } else {
    // The largest integer may not be a float, the number above it always is: a power of two.
    constexpr From kAbove = static_cast<From>(static_cast<uint64_t>(Range::kMost) + 1);
    if (value != value) return To{0};
    if (value >= kAbove) return Range::kMost;
    if (value <= static_cast<From>(Range::kLeast)) return Range::kLeast;
    return static_cast<To>(value);
  }
}

}  // namespace flow
