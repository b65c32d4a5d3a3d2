// The common form of a number, `-? D* (mark D*)?` with at most 19 digits, which is parsed eight
// digits at a time and rounded without a library.
#pragma once

#include <array>
#include <bit>
#include <cfloat>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace flow::data {

/// The number +-mantissa * 10^exponent.
struct PlainNumber {
  bool negative = false;
  uint64_t mantissa = 0;
  int64_t exponent = 0;
};

/// The most digits that fit in the mantissa, and the bytes that scan_plain_number() may read.
inline constexpr int kMantissaDigits = 19;
inline constexpr ptrdiff_t kPlainNumberBytes = 64;

/// Powers of ten that float64 and, up to 10^27, 80-bit floats represent exactly.
template <typename Float, size_t kCount>
inline constexpr auto kPowersOfTen = [] {
  std::array<Float, kCount> powers = {1};
  for (size_t i = 1; i < kCount; ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();

/// Computes mantissa * 10^exponent if both are exact as Float, so that one operation rounds
/// correctly (Clinger, "How to Read Floating Point Numbers Accurately", 1990).
template <typename Float, size_t kCount>
inline bool scale_exactly(const PlainNumber& number, Float& size) {
  constexpr auto kMost = static_cast<int64_t>(kCount) - 1;
  if (number.exponent > kMost || number.exponent < -kMost) return false;
  const auto mantissa = static_cast<Float>(number.mantissa);
  const Float power = kPowersOfTen<Float, kCount>[static_cast<size_t>(std::abs(number.exponent))];
  size = number.exponent < 0 ? mantissa / power : mantissa * power;
  return true;
}

/// Returns the value with a sign. Signs are often random, so that a branch would be mispredicted.
inline double with_sign(bool negative, double size) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(size) | uint64_t{negative} << 63);
}

/// Rounds to the nearest float64. Returns false if that takes more exact arithmetic.
inline bool round_plain_number(const PlainNumber& number, double& value) {
  double size = 0;
  // Up to 2^53 would be exact, but about half of the numbers with 16 digits are larger.
  constexpr uint64_t kFifteenDigits = 1'000'000'000'000'000;
  if (number.mantissa < kFifteenDigits && scale_exactly<double, 23>(number, size)) {
    value = with_sign(number.negative, size);
    return true;
  }
#if LDBL_MANT_DIG == 64 && defined(__x86_64__)
  // Rounding to 64 bits and then to 53 bits differs from rounding once only if the 64 bits end
  // halfway between two float64, which is a representable number.
  long double wide = 0;
  if (!scale_exactly<long double, 28>(number, wide)) return false;
  uint64_t bits;
  std::memcpy(&bits, &wide, sizeof bits);
  value = with_sign(number.negative, static_cast<double>(wide));
  constexpr uint64_t kBelowFloat64 = (1 << 11) - 1, kHalf = 1 << 10;
  return (bits & kBelowFloat64) != kHalf;
#else
  return false;
#endif
}

/// Rounds to the nearest float64 in all cases. REQUIRES: the exponent is from -19 to 0.
double round_any_plain_number(const PlainNumber& number);

/// Reads the digits from `at` on, and adds their count to `digits`. Stops after at most 24.
inline const char* scan_digits(const char* at, uint64_t& mantissa, int& digits) {
  constexpr uint64_t kEach = 0x0101010101010101;
  int count = 8;
  while (count == 8 && digits <= kMantissaDigits) {
    uint64_t bytes;
    std::memcpy(&bytes, at, sizeof bytes);
    bytes ^= kEach * '0';
    // The high bit of each byte that is not 0 to 9.
    const uint64_t others = (((bytes & kEach * 0x7F) + kEach * 0x76) | bytes) & kEach * 0x80;
    count = std::countr_zero(others) / 8;
    if (count == 0) break;
    // Leading zeros take the place of the bytes that are not digits. Pairs, then fours, then eights
    // of digits are added up (Lemire, "Quickly parsing eight digits", 2018).
    bytes <<= 64 - 8 * count;
    bytes = bytes * 10 + (bytes >> 8);
    constexpr uint64_t kPairs = 0x000000FF000000FF;
    const uint64_t value = ((bytes & kPairs) * (100 + (uint64_t{1000000} << 32)) +
                            ((bytes >> 16) & kPairs) * (1 + (uint64_t{10000} << 32))) >>
                           32;
    mantissa = mantissa * kPowersOfTen<uint64_t, 9>[static_cast<size_t>(count)] + value;
    digits += count;
    at += count;
  }
  return at;
}

/// Returns true and the number if the text from `at` to `end` has the common form. REQUIRES:
/// kPlainNumberBytes bytes can be read, and the machine is little-endian.
inline bool is_plain_number(const char* at, const char* end, char decimal, PlainNumber& number) {
  int digits = 0;
  uint64_t mantissa = 0;
  const bool negative = *at == '-';
  at = scan_digits(at + negative, mantissa, digits);
  const char* fraction = at;
  if (*at == decimal) {
    fraction = at + 1;
    at = scan_digits(fraction, mantissa, digits);
  }
  number = {negative, mantissa, fraction - at};
  return digits > 0 && digits <= kMantissaDigits && at == end;
}

}  // namespace flow::data
