// The 16-bit floats on the host: conversions from and to float, rounded to the nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace flow {

/// The value of a bfloat16, whose bits are the upper half of a float's.
inline float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// The nearest bfloat16; a NaN stays a (quiet) NaN.
inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// The value of a float16 (IEEE binary16).
float float16_to_float(uint16_t bits);

/// The nearest float16: too large becomes an infinity, a NaN stays a (quiet) NaN. From a double
/// there is one rounding, not two.
uint16_t double_to_float16(double value);
inline uint16_t float_to_float16(float value) { return double_to_float16(value); }

/// The nearest bfloat16, rounded once.
uint16_t double_to_bfloat16(double value);

}  // namespace flow
