// The common form of a number, `-? D* (mark D*)?` with at most 19 digits, which is parsed eight
// digits at a time and rounded without a library.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
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

/// The most digits that fit in the mantissa, and the bytes that is_plain_number() may read.
inline constexpr int kMantissaDigits = 19;
inline constexpr ptrdiff_t kPlainNumberBytes = 64;

template <typename Number, size_t kCount>
inline constexpr auto kPowersOfTen = [] {
  std::array<Number, kCount> powers = {1};
  for (size_t i = 1; i < kCount; ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();

/// Returns the value with a sign. Signs are often random, so that a branch would be mispredicted.
inline double with_sign(bool negative, double size) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(size) | uint64_t{negative} << 63);
}

/// Computes mantissa * 10^exponent if both are exact in float64, so that one operation rounds
/// correctly (Clinger, "How to Read Floating Point Numbers Accurately", 1990).
inline bool scale_exactly(const PlainNumber& number, double& size) {
  // Up to 2^53 would be exact, but about half of the numbers with 16 digits are larger.
  constexpr uint64_t kFifteenDigits = 1'000'000'000'000'000;
  constexpr int64_t kMost = 22;
  if (number.mantissa >= kFifteenDigits) return false;
  if (number.exponent > kMost || number.exponent < -kMost) return false;
  const auto mantissa = static_cast<double>(number.mantissa);
  const double power =
      kPowersOfTen<double, kMost + 1>[static_cast<size_t>(std::abs(number.exponent))];
  size = number.exponent < 0 ? mantissa / power : mantissa * power;
  return true;
}

/// 10^-exponent as a 64-bit significand, which is rounded down, and a power of two.
struct Reciprocal {
  uint64_t significand = 0;
  int power = 0;
};

inline constexpr auto kReciprocals = [] {
  std::array<Reciprocal, kMantissaDigits + 1> reciprocals;
  for (size_t i = 0; i < reciprocals.size(); ++i) {
    const uint64_t divisor = kPowersOfTen<uint64_t, kMantissaDigits + 1>[i];
    const int power = 63 + std::bit_width(divisor - 1);
    reciprocals[i] = {static_cast<uint64_t>((static_cast<unsigned __int128>(1) << power) / divisor),
                      -power};
  }
  return reciprocals;
}();

/// Computes mantissa * 10^exponent with 64 bits, and rounds it to 53 bits. Returns false if the
/// error of the 64 bits, which is less than 2, could change the rounding. REQUIRES: mantissa > 0.
inline bool scale_approximately(const PlainNumber& number, double& size) {
  if (number.exponent > 0 || number.exponent < -kMantissaDigits) return false;
  const Reciprocal& reciprocal = kReciprocals[static_cast<size_t>(-number.exponent)];
  const int zeros = std::countl_zero(number.mantissa);
  const auto product =
      static_cast<unsigned __int128>(number.mantissa << zeros) * reciprocal.significand;
  const auto high = static_cast<uint64_t>(product >> 64);
  const int dropped = 10 + static_cast<int>(high >> 63);
  const uint64_t half = uint64_t{1} << (dropped - 1), rest = high & (2 * half - 1);
  if (rest == half || rest == half - 1) return false;
  const uint64_t significand = (high >> dropped) + (rest > half);
  const auto exponent = static_cast<uint64_t>(1023 + 64 + dropped - zeros + reciprocal.power);
  size = static_cast<double>(significand) * std::bit_cast<double>(exponent << 52);
  return true;
}

/// Rounds to the nearest float64. Returns false if that takes more exact arithmetic.
inline bool round_plain_number(const PlainNumber& number, double& value) {
  double size = 0;
  if (!scale_exactly(number, size) && !scale_approximately(number, size)) return false;
  value = with_sign(number.negative, size);
  return true;
}

/// Rounds to the nearest float64 in all cases. REQUIRES: the exponent is from -19 to 0.
double round_any_plain_number(const PlainNumber& number);

/// Eight characters of a number.
class EightCharacters {
 public:
  explicit EightCharacters(const char* at) {
    std::memcpy(&bytes_, at, sizeof bytes_);
    bytes_ ^= kEach * '0';
  }

  /// Returns the high bit of each character that is not a digit.
  uint64_t others() const {
    return (((bytes_ & kEach * 0x7F) + kEach * 0x76) | bytes_) & kEach * 0x80;
  }
  /// Keeps the first `count` characters, after zeros. REQUIRES: 1 <= count <= 8.
  void keep_first(int count) { bytes_ <<= 64 - 8 * count; }
  /// Keeps the last `count` characters, after zeros. REQUIRES: 1 <= count <= 8.
  void keep_last(int count) { bytes_ &= ~uint64_t{0} << (64 - 8 * count); }

  /// Does the same. REQUIRES: 0 <= count < 8.
  void keep_few(int count) { bytes_ &= ~uint64_t{0} << (56 - 8 * count) << 8; }

  /// Returns the value of eight digits: pairs, then fours, then eights are added up (Lemire,
  /// "Quickly parsing eight digits", 2018).
  uint64_t value() const {
    constexpr uint64_t kPairs = 0x000000FF000000FF;
    const uint64_t pairs = bytes_ * 10 + (bytes_ >> 8);
    return ((pairs & kPairs) * (100 + (uint64_t{1000000} << 32)) +
            ((pairs >> 16) & kPairs) * (1 + (uint64_t{10000} << 32))) >>
           32;
  }

 private:
  static constexpr uint64_t kEach = 0x0101010101010101;

  uint64_t bytes_;
};

inline constexpr uint64_t kEightDigits = 100'000'000;

/// Appends the digits from `at` on to the mantissa, and returns their end. Stops after 24.
inline const char* append_whole(const char* at, uint64_t& mantissa) {
  const char* const begin = at;
  int count = 8;
  while (count == 8 && at - begin <= kMantissaDigits) {
    EightCharacters digits(at);
    count = std::countr_zero(digits.others()) / 8;
    if (count == 0) break;
    digits.keep_first(count);
    mantissa = mantissa * kPowersOfTen<uint64_t, 9>[static_cast<size_t>(count)] + digits.value();
    at += count;
  }
  return at;
}

/// Appends the `count` digits before `end` to the mantissa. Returns false if other characters are
/// among them. Counts around 16 are common, so that no branch depends on them. REQUIRES:
/// 1 <= count <= 19.
inline bool append_fraction(const char* end, int count, uint64_t& mantissa) {
  mantissa *= kPowersOfTen<uint64_t, kMantissaDigits + 1>[static_cast<size_t>(count)];
  EightCharacters low(end - 8);
  if (count <= 8) {
    low.keep_last(count);
    mantissa += low.value();
    return low.others() == 0;
  }
  EightCharacters middle(end - 16), high(end - 24);
  middle.keep_last(std::min(count - 8, 8));
  high.keep_few(std::max(count - 16, 0));
  mantissa += (high.value() * kEightDigits + middle.value()) * kEightDigits + low.value();
  return (low.others() | middle.others() | high.others()) == 0;
}

/// Returns true and the number if the text from `at` to `end` has the common form. REQUIRES:
/// kPlainNumberBytes bytes can be read before `end` and from `at` on, and the machine is
/// little-endian.
inline bool is_plain_number(const char* at, const char* end, char decimal, PlainNumber& number) {
  number = {*at == '-', 0, 0};
  const char* const whole = at + number.negative;
  at = append_whole(whole, number.mantissa);
  ptrdiff_t digits = at - whole;
  if (at != end) {
    const ptrdiff_t fraction = end - at - 1;
    digits += fraction;
    if (*at != decimal || fraction < 0 || digits > kMantissaDigits) return false;
    if (fraction > 0 && !append_fraction(end, static_cast<int>(fraction), number.mantissa))
      return false;
    number.exponent = -fraction;
  }
  return digits > 0 && digits <= kMantissaDigits;
}

}  // namespace flow::data
