// e^x for floats, inlined, so that it takes the instruction set of the loop around it.
#pragma once

#include <bit>
#include <cstdint>

namespace flow::cpu {

/// e^x for x <= 0, within 2 units in the last place; 0 below -87.33, where floats become denormal.
/// NaN stays NaN. x = k ln 2 + r, |r| <= ln 2 / 2; e^r by Taylor's polynomial. Selects by bits,
/// since of conditionals on floats GCC makes branches, and no vectors.
[[gnu::always_inline]] inline float exp_of_nonpositive(float x) {
  constexpr uint32_t kSmallest = std::bit_cast<uint32_t>(-87.33f);
  constexpr uint32_t kMinusInfinity = 0xFF800000;
  constexpr float kLog2E = 1.44269504f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t below =
      uint32_t{0} - static_cast<uint32_t>(bits - kSmallest <= kMinusInfinity - kSmallest);
  const auto raised = std::bit_cast<float>((bits & ~below) | (kSmallest & below));
  const float shifted = raised * kLog2E + kRound;
  const float k = shifted - kRound;
  const float r = (raised - k * kLn2High) - k * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  const float e = (p * r * r + r) + 1.0f;
  // The integer k stands in the low bits of `shifted`; as an exponent it makes 2^k.
  const auto power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127) << 23);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(e * power) & ~below);
}

}  // namespace flow::cpu
