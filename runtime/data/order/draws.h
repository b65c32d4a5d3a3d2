// Single words of draws, and the numbers that are made from them. Rounding is that of the formulas
// that use them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/philox.h"

namespace flow::data {

/// The draws of an epoch of a dataset, or of a part of it.
struct EpochDraws {
  uint64_t seed = 0;
  std::string_view dataset;  // the name of the dataset or part, which begins the names of draws
  uint32_t epoch = 0;

  PhiloxKey key(std::string_view use) const {
    return philox_key(seed, std::string(dataset).append(use));
  }
};

/// Returns a whole number in [0, n), uniform up to 2^-32 n. REQUIRES: n is not negative.
inline int64_t below(uint32_t word, int64_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<int64_t>((Wide{word} * static_cast<uint64_t>(n)) >> 32);
}

/// Returns a multiple of 2^-24 in [0, 1).
inline double unit(uint32_t word) { return static_cast<double>(word >> 8) * 0x1p-24; }

/// Returns true with this probability. REQUIRES: it is in [0, 1].
inline bool happens(uint32_t word, double probability) {
  return word < static_cast<uint64_t>(std::floor(probability * 0x1p32 + 0.5));
}

/// Rounds to the nearest whole number, ties upward.
inline double half_up(double x) { return std::floor(x + 0.5); }

/// Returns difference / 2, rounded to the nearest whole number, ties to even. REQUIRES: the
/// difference is not negative.
constexpr int64_t half_even(int64_t difference) {
  const int64_t half = difference / 2;
  return half + (difference % 2) * (half % 2);
}

}  // namespace flow::data
