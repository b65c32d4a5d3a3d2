// The 16-bit floats: conversions from and to float, rounded to the nearest even, on every device.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/base/host_device.h"

namespace flow {

/// std::bit_cast, which device code cannot call.
template <typename To, typename From>
FLOW_HOST_DEVICE inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

/// The value of a bfloat16, whose bits are the upper half of a float's.
FLOW_HOST_DEVICE inline float bfloat16_to_float(uint16_t bits) {
  return bits_as<float>(static_cast<uint32_t>(bits) << 16);
}

/// The nearest bfloat16; a NaN stays a (quiet) NaN.
FLOW_HOST_DEVICE inline uint16_t float_to_bfloat16(float value) {
  const auto bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// The value of a float16 (IEEE binary16).
FLOW_HOST_DEVICE inline float float16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) return bits_as<float>(sign | 0x7f800000 | (fraction << 13));
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in a float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return bits_as<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

/// The nearest float16: too large becomes an infinity, a NaN stays a (quiet) NaN. In Float's own
/// arithmetic: there is one rounding from a double, and no double (of which some devices do few a
/// second) from a float.
template <typename Float, typename Bits, int kFraction, int kBias>
FLOW_HOST_DEVICE inline uint16_t to_float16(Float value) {
  const auto bits = bits_as<Bits>(value);
  const auto sign = static_cast<uint32_t>(bits >> (8 * sizeof(Bits) - 16) & 0x8000);
  const Bits unsigned_bits = bits & ~(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto magnitude = bits_as<Float>(unsigned_bits);
  if (magnitude != magnitude) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 65520) return static_cast<uint16_t>(sign | 0x7c00);  // halfway to 2^16 and above
  // Subnormal: whole multiples of 2^-24, to which adding what has that for its last place rounds.
  constexpr Float kPlaces = kFraction == 52 ? Float(0x1p28) : Float(0x1p-1);
  if (magnitude < Float(0x1p-14))
    return static_cast<uint16_t>(
        sign | static_cast<uint32_t>((magnitude + kPlaces - kPlaces) * Float(0x1p24)));
  // 10 bits of the fraction stay. Rounding may carry into the exponent, which is right.
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

/// The nearest bfloat16, rounded once.
FLOW_HOST_DEVICE inline uint16_t double_to_bfloat16(double value) {
  // Rounding to odd on the way to a float keeps what the second rounding must see.
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

}  // namespace flow
