// Elementary functions of floats that only use arithmetic, so that compilers vectorize loops over
// them, and host and device get bit-identical results. For double, they call the C library.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/base/element_types.h"

/// Marks a function that is called in a loop. Loops are vectorized only if such functions are
/// inlined.
#ifdef __CUDACC__
#define FLOW_INLINE __host__ __device__ __forceinline__
#else
#define FLOW_INLINE [[gnu::always_inline]] inline
#endif

namespace flow::math {

// Results are within 4 units in the last place of the exact value, and NaN if that is undefined.
// Denormal operands count as zeros, and denormal results may become zeros. Conditionals choose
// between two values that are both computed, because a branch cannot be vectorized.

inline constexpr float kInfinity = __builtin_inff(), kNaN = __builtin_nanf("");

/// The parts of e^x: x = k ln 2 + r with |r| <= ln 2 / 2. Then e^x = 2^k (1 + q) with q = e^r - 1,
/// from a Taylor series.
struct Exponent {
  float q;
  int32_t k;
};

/// REQUIRES: |x| < 2^20.
FLOW_INLINE Exponent exponent_of(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23; adding it rounds to an integer
  const float shifted = x * kLog2E + kRound;
  const float k = shifted - kRound;
  const float r = (x - k * kLn2High) - k * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  // The low bits of `shifted` are the integer k.
  return {p * r * r + r,
          static_cast<int32_t>(bits_as<uint32_t>(shifted) - bits_as<uint32_t>(kRound))};
}

/// Returns 2^k. REQUIRES: -127 < k < 128.
FLOW_INLINE float power_of_two(int32_t k) {
  return bits_as<float>(static_cast<uint32_t>(k + 127) << 23);
}

/// Returns the magnitude of x with the sign of `of`.
FLOW_INLINE float with_sign(float x, float of) {
  return bits_as<float>((bits_as<uint32_t>(x) & 0x7FFFFFFF) | (bits_as<uint32_t>(of) & 0x80000000));
}

FLOW_INLINE float magnitude(float x) { return bits_as<float>(bits_as<uint32_t>(x) & 0x7FFFFFFF); }

/// Returns e^x.
FLOW_INLINE float exp(float x) {
  constexpr float kLeast = -104, kMost = 89;  // Beyond these, the result is 0 or infinite.
  const float above = x < kLeast ? kLeast : x;
  const Exponent e = exponent_of(above > kMost ? kMost : above);
  // Multiplies in two steps, because 2^k may be out of range even if the result is not.
  const int32_t half = e.k >> 1;
  return (1.0f + e.q) * power_of_two(half) * power_of_two(e.k - half);
}

/// Returns e^x for x <= 0, as a term of a sum. It is 0 below -87.33, where results become denormal.
FLOW_INLINE float exp_of_nonpositive(float x) {
  constexpr float kLeast = -87.33f;
  const Exponent e = exponent_of(x < kLeast ? kLeast : x);
  const float result = (1.0f + e.q) * power_of_two(e.k);
  return x < kLeast ? 0.0f : result;
}

/// Returns e^x - 1, which is accurate near 0, too.
FLOW_INLINE float expm1(float x) {
  constexpr float kLeast = -30, kMost = 89;
  const float above = x < kLeast ? kLeast : x;
  const Exponent e = exponent_of(above > kMost ? kMost : above);
  const int32_t half = e.k >> 1;
  const float power = power_of_two(half);
  const float rest = power_of_two(e.k - half);
  return e.k > 64 ? (1.0f + e.q) * power * rest : e.q * (power * rest) + (power * rest - 1.0f);
}

/// Returns ln x, where x = 2^k (1 + f) and 1 + f is between the roots of 1/2 and 2. If s = f / (2 +
/// f), then ln(1 + f) = f - f^2/2 + s (f^2/2 + 2/3 s^2 + 2/5 s^4 + ...).
FLOW_INLINE float log(float x) {
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f, kSmallest = 1.17549435e-38f;
  constexpr uint32_t kRootOfHalf = 0x3F3504F3;
  const auto bits = bits_as<uint32_t>(x);
  const int32_t exponent = static_cast<int32_t>(bits - kRootOfHalf) >> 23;
  const float f = bits_as<float>(bits - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
  const auto k = static_cast<float>(exponent);
  const float s = f / (2.0f + f), z = s * s, half = 0.5f * f * f;
  const float p = z * (2.0f / 3 + z * (2.0f / 5 + z * (2.0f / 7 + z * (2.0f / 9))));
  const float finite = k * kLn2High + (f - (half - (s * (half + p) + k * kLn2Low)));
  const float positive = x < kInfinity ? finite : x;  // infinity and NaN are kept
  const float any = x < kSmallest ? -kInfinity : positive;
  return x <= -kSmallest ? kNaN : any;
}

/// Returns ln(1 + u) for 0 <= u <= 1: 2 (s + s^3/3 + s^5/5 + ...) with s = u / (2 + u).
FLOW_INLINE float log1p_of_unit(float u) {
  const float s = u / (2.0f + u), z = s * s;
  float p = 1.0f / 15;
  p = p * z + 1.0f / 13;
  p = p * z + 1.0f / 11;
  p = p * z + 1.0f / 9;
  p = p * z + 1.0f / 7;
  p = p * z + 1.0f / 5;
  p = p * z + 1.0f / 3;
  return 2.0f * (s + s * z * p);
}

/// Returns the hyperbolic tangent. Its magnitude is t / (t + 2), where t = e^(-2|x|) - 1 is always
/// finite.
FLOW_INLINE float tanh(float x) {
  const float t = expm1(-2.0f * magnitude(x));
  return with_sign(t / (t + 2.0f), x);
}

/// The standard normal distribution at x: the probability of values below x, and e^(-x^2/2).
template <typename T>
struct Normal {
  T share, bell;
};

/// The probability of values below -|x| is bell P(|x|) / Q(|x|). The polynomials are fitted for the
/// smallest relative error, 5e-9, up to 13.5, where bell becomes denormal.
FLOW_INLINE Normal<float> normal(float x) {
  constexpr float kMost = 14;
  const float size = magnitude(x), a = size > kMost ? kMost : size;
  float p = 0.00403701385f;
  p = p * a + 0.0400982017f;
  p = p * a + 0.181646308f;
  p = p * a + 0.436146977f;
  p = p * a + 0.5f;
  float q = 0.0101191542f;
  q = q * a + 0.100518496f;
  q = q * a + 0.465276466f;
  q = q * a + 1.19589832f;
  q = q * a + 1.67017888f;
  q = q * a + 1.0f;
  const float bell = exp_of_nonpositive(-0.5f * a * a), tail = bell * (p / q);
  return {x < 0.0f ? tail : 1.0f - tail, bell};
}

/// Returns the error function. Near 0 it is a Taylor series (Abramowitz and Stegun, 7.1.5);
/// elsewhere its magnitude is 1 - 2 times the probability of standard normal values below -sqrt(2)
/// |x|.
FLOW_INLINE float erf(float x) {
  constexpr float kNear = 0.5f, kRootOf2 = 1.41421356f, kSlope = 1.12837917f;  // 2 / sqrt(pi)
  const float z = x * x;
  float p = 1.0f / 9360;
  p = p * z - 1.0f / 1320;
  p = p * z + 1.0f / 216;
  p = p * z - 1.0f / 42;
  p = p * z + 1.0f / 10;
  p = p * z - 1.0f / 3;
  const float near = kSlope * x * (1.0f + z * p);
  const float far = with_sign(1.0f - 2.0f * normal(-kRootOf2 * magnitude(x)).share, x);
  return magnitude(x) < kNear ? near : far;
}

/// Returns 1 / (1 + e^-x).
FLOW_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

/// Returns ln(1 + e^x).
FLOW_INLINE float softplus(float x) {
  return (x > 0.0f ? x : 0.0f) + log1p_of_unit(exp_of_nonpositive(-magnitude(x)));
}

/// The parts of an angle: x = k pi / 2 + r with |r| <= pi / 4. They are accurate to the last bit of
/// a float if |x| <= kFar.
struct Quarters {
  float r;
  uint32_t k;  // modulo 2^32
};

inline constexpr float kFar = 1e8f;

FLOW_INLINE Quarters quarters_of(float x) {
  // pi / 2 is split into two parts. The first has 25 bits, so that its products with k are exact.
  constexpr double kHigh = 1.57079631090164184570, kLow = 1.58932547735281966916e-8;
  constexpr double kTwoOverPi = 0.63661977236758134308;
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52; adding it rounds to an integer
  const double shifted = static_cast<double>(x) * kTwoOverPi + kRound, k = shifted - kRound;
  const double r = (static_cast<double>(x) - k * kHigh) - k * kLow;
  return {static_cast<float>(r), static_cast<uint32_t>(bits_as<uint64_t>(shifted))};
}

/// Returns the sine of k pi / 2 + r: the sine or cosine of r with a sign, both from Taylor series.
FLOW_INLINE float sin_of(Quarters at) {
  const float r = at.r, z = r * r;
  float s = 1.0f / 362880;
  s = s * z - 1.0f / 5040;
  s = s * z + 1.0f / 120;
  s = s * z - 1.0f / 6;
  float c = -1.0f / 3628800;
  c = c * z + 1.0f / 40320;
  c = c * z - 1.0f / 720;
  c = c * z + 1.0f / 24;
  c = c * z - 0.5f;
  const float sine = r * (1.0f + z * s), cosine = 1.0f + z * c;
  const float turned = (at.k & 1) != 0 ? cosine : sine;
  return bits_as<float>(bits_as<uint32_t>(turned) ^ ((at.k & 2) << 30));
}

/// Return sin x and cos x. REQUIRES: |x| <= kFar, or x is infinite or NaN.
FLOW_INLINE float sin_near(float x) { return sin_of(quarters_of(x)); }
FLOW_INLINE float cos_near(float x) {
  const Quarters at = quarters_of(x);
  return sin_of({at.r, at.k + 1});
}

/// Return sin x and cos x for any x. Beyond kFar they call the C library, which cannot be
/// vectorized.
FLOW_INLINE bool is_far(float x) { return magnitude(x) > kFar; }
FLOW_INLINE float sin(float x) { return is_far(x) ? std::sin(x) : sin_near(x); }
FLOW_INLINE float cos(float x) { return is_far(x) ? std::cos(x) : cos_near(x); }

FLOW_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }

FLOW_INLINE double magnitude(double x) { return std::fabs(x); }
FLOW_INLINE double exp(double x) { return std::exp(x); }
FLOW_INLINE double exp_of_nonpositive(double x) { return std::exp(x); }
FLOW_INLINE double expm1(double x) { return std::expm1(x); }
FLOW_INLINE double log(double x) { return std::log(x); }
FLOW_INLINE double tanh(double x) { return std::tanh(x); }
FLOW_INLINE Normal<double> normal(double x) {
  return {std::erfc(x * -0.70710678118654752440) / 2, std::exp(x * x / -2)};
}
FLOW_INLINE double erf(double x) { return std::erf(x); }
FLOW_INLINE double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
FLOW_INLINE double softplus(double x) {
  return (x > 0.0 ? x : 0.0) + std::log1p(std::exp(x > 0.0 ? -x : x));
}
FLOW_INLINE double sin(double x) { return std::sin(x); }
FLOW_INLINE double cos(double x) { return std::cos(x); }
FLOW_INLINE double sqrt(double x) { return std::sqrt(x); }

/// 1 / (1 + e^-x) and its derivative, which stays above 0 even if the share rounds to 1.
template <typename T>
struct Logistic {
  T share, slope;
};
template <typename T>
FLOW_INLINE Logistic<T> logistic(T x) {
  const T e = exp_of_nonpositive(-magnitude(x)), d = T(1) / (T(1) + e), tail = e * d;
  return {x < T(0) ? tail : d, tail * d};
}

}  // namespace flow::math
