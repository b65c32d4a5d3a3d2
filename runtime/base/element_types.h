// The C++ types of elements: 16-bit floats, the type of a dtype for templates, and the conversions
// of `cast`. They give the same results on every device.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"

namespace flow {

/// Replaces std::bit_cast, which device code cannot call.
template <typename To, typename From>
FLOW_HOST_DEVICE inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

/// Returns the value of a bfloat16, whose bits are the upper half of a float's.
FLOW_HOST_DEVICE inline float bfloat16_to_float(uint16_t bits) {
  return bits_as<float>(static_cast<uint32_t>(bits) << 16);
}

/// Returns the nearest bfloat16. A NaN stays a (quiet) NaN.
FLOW_HOST_DEVICE inline uint16_t float_to_bfloat16(float value) {
  const auto bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// Returns the value of a float16 (IEEE binary16).
FLOW_HOST_DEVICE inline float float16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) return bits_as<float>(sign | 0x7f800000 | (fraction << 13));
  // The value is zero or subnormal: fraction * 2^-24, which is exact in a float.
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return bits_as<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

/// Returns the nearest float16. A value that is too large becomes infinite, and a NaN stays a
/// (quiet) NaN. The computation is in the type Float: a double is rounded once, and a float needs
/// no double arithmetic, which is slow on some devices.
template <typename Float, typename Bits, int kFraction, int kBias>
FLOW_HOST_DEVICE inline uint16_t to_float16(Float value) {
  const auto bits = bits_as<Bits>(value);
  const auto sign = static_cast<uint32_t>(bits >> (8 * sizeof(Bits) - 16) & 0x8000);
  const Bits unsigned_bits = bits & ~(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto magnitude = bits_as<Float>(unsigned_bits);
  if (magnitude != magnitude) return static_cast<uint16_t>(sign | 0x7e00);
  // The bound is halfway between the largest float16, 65504, and 2^16.
  if (magnitude >= 65520) return static_cast<uint16_t>(sign | 0x7c00);
  // A subnormal result is a whole multiple of 2^-24. Adding a number whose last place is 2^-24
  // rounds the value to it.
  constexpr Float kPlaces = kFraction == 52 ? Float(0x1p28) : Float(0x1p-1);
  if (magnitude < Float(0x1p-14))
    return static_cast<uint16_t>(
        sign | static_cast<uint32_t>((magnitude + kPlaces - kPlaces) * Float(0x1p24)));
  // Keeps 10 bits of the fraction. Rounding may carry into the exponent, which gives the correct
  // result.
  constexpr int kDropped = kFraction - 10;
  const Bits odd = unsigned_bits >> kDropped & 1;
  const Bits rounded = (unsigned_bits + (Bits{1} << (kDropped - 1)) - 1 + odd) >> kDropped;
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(rounded - (Bits{kBias - 15} << 10)));
}

FLOW_HOST_DEVICE inline uint16_t double_to_float16(double value) {
  return to_float16<double, uint64_t, 52, 1023>(value);
}

FLOW_HOST_DEVICE inline uint16_t float_to_float16(float value) {
  return to_float16<float, uint32_t, 23, 127>(value);
}

/// Returns the nearest bfloat16, rounded once.
FLOW_HOST_DEVICE inline uint16_t double_to_bfloat16(double value) {
  // The float is rounded to odd, so that it keeps the information which the second rounding needs.
  auto rounded = static_cast<float>(value);
  const auto back = static_cast<double>(rounded);
  auto bits = bits_as<uint32_t>(rounded);
  const bool finite = (bits & 0x7f800000) != 0x7f800000;
  if (finite && back != value) {
    const bool away = value < 0 ? back < value : back > value;
    if (away) --bits;
    rounded = bits_as<float>(bits | 1);
  }
  return float_to_bfloat16(rounded);
}

/// The 16-bit floats as elements of arrays.
struct Float16 {
  uint16_t bits;
  FLOW_HOST_DEVICE operator float() const { return float16_to_float(bits); }
};
struct BFloat16 {
  uint16_t bits;
  FLOW_HOST_DEVICE operator float() const { return bfloat16_to_float(bits); }
};

template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kFloat16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBFloat16;
};

/// The type in which a float is computed: float32 for 16-bit floats, and the float's type
/// otherwise.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

[[noreturn]] inline void dtype_not_expected(DType dtype) {
  check_failed(__FILE__, __LINE__, "dtype", std::string(name_of(dtype)));
}

/// Calls f with a zero of the C++ type of `dtype`, float or double, and returns the result of f.
template <typename F>
auto visit_float(DType dtype, F f) {
  if (dtype == DType::kFloat64) return f(double{});
  if (dtype == DType::kFloat32) return f(float{});
  dtype_not_expected(dtype);
}

/// Calls f in the same way for a float dtype of any size.
template <typename F>
auto visit_any_float(DType dtype, F f) {
  if (dtype == DType::kFloat16) return f(Float16{});
  if (dtype == DType::kBFloat16) return f(BFloat16{});
  return visit_float(dtype, f);
}

/// Calls f in the same way for an integer dtype.
template <typename F>
auto visit_integer(DType dtype, F f) {
  switch (dtype) {
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUInt8:
      return f(uint8_t{});
    default:
      dtype_not_expected(dtype);
  }
}

/// Calls f in the same way for float32, float64 and the integers.
template <typename F>
auto visit_number(DType dtype, F f) {
  return is_integer(dtype) ? visit_integer(dtype, f) : visit_float(dtype, f);
}

/// Calls f in the same way for any of the nine dtypes.
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

/// Calls f with a zero of the unsigned integer type of this size, for code that moves elements and
/// does not interpret them.
template <typename F>
auto visit_size(size_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      check_failed(__FILE__, __LINE__, "bytes", std::to_string(bytes));
  }
}

/// The limits of a type as constants, because device code cannot call std::numeric_limits.
template <typename T>
struct RangeOf {
  static constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
};

/// Converts a value. A float result is the nearest one, ties to even. An integer result is
/// truncated, or the nearest integer of the type if the value is out of range (0 for NaN). A bool
/// is true for anything but 0.
template <typename To, typename From>
FLOW_HOST_DEVICE To convert(From value) {
  using Range = RangeOf<To>;  // used for integers only
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
    // The largest integer may not be a float, but the integer after it always is, because it is a
    // power of two.
    constexpr From kAbove = static_cast<From>(static_cast<uint64_t>(Range::kMost) + 1);
    if (value != value) return To{0};
    if (value >= kAbove) return Range::kMost;
    if (value <= static_cast<From>(Range::kLeast)) return Range::kLeast;
    return static_cast<To>(value);
  }
}

}  // namespace flow
