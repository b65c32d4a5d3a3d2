// One element from any dtype to any other, as `cast` does it.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/base/half.h"
#include "runtime/cpu/operands.h"

namespace flow::cpu {

/// The 16-bit floats as elements of arrays.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

/// Calls f with a zero of the C++ type of `dtype`, any of the nine.
template <typename F>
auto visit_dtype(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kBool:
      return f(bool{});
    default:
      return visit_number(dtype, f);
  }
}

/// Rounds to the nearest float, ties to even; truncates to an integer, and takes the nearest there
/// is where the value is out of range (0 for NaN); anything but 0 is true.
template <typename To, typename From>
To convert(From value) {
  using Limits = std::numeric_limits<To>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Float16>) {
    return convert<To>(float16_to_float(value.bits));
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return convert<To>(bfloat16_to_float(value.bits));
  } else if constexpr (std::is_same_v<To, Float16>) {
    return {double_to_float16(static_cast<double>(value))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return {double_to_bfloat16(static_cast<double>(value))};
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<To> || std::is_same_v<From, bool>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_integral_v<From>) {
    if (static_cast<int64_t>(value) < static_cast<int64_t>(Limits::min())) return Limits::min();
    if (static_cast<int64_t>(value) > static_cast<int64_t>(Limits::max())) return Limits::max();
    return static_cast<To>(value);
  } else {
    // The largest integer may not be a float, the number above it always is: a power of two.
    constexpr From kAbove = static_cast<From>(static_cast<uint64_t>(Limits::max()) + 1);
    if (value != value) return To{0};
    if (value >= kAbove) return Limits::max();
    if (value <= static_cast<From>(Limits::min())) return Limits::min();
    return static_cast<To>(value);
  }
}

}  // namespace flow::cpu
