// The 16-bit floats on the host.
#include "runtime/base/half.h"

#include <cmath>

namespace flow {

float float16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13));
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in a float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

uint16_t double_to_float16(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::abs(value);
  if (magnitude >= 65520) return sign | 0x7c00;  // halfway to 2^16, and above
  if (magnitude < 0x1p-14)                       // subnormal: whole multiples of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24));
  // Rounding may carry into the exponent, which is right as it stands.
  const int exponent = std::ilogb(magnitude);
  const auto significand = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + significand);
}

uint16_t double_to_bfloat16(double value) {
  // Rounding to odd on the way to a float keeps what the second rounding must see.
  auto rounded = static_cast<float>(value);
  if (std::isfinite(rounded) && static_cast<double>(rounded) != value) {
    const bool away = std::abs(static_cast<double>(rounded)) > std::abs(value);
    auto bits = std::bit_cast<uint32_t>(rounded);
    if (away) --bits;
    rounded = std::bit_cast<float>(bits | 1);
  }
  return float_to_bfloat16(rounded);
}

}  // namespace flow
