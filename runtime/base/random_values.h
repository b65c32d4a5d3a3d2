// Random numbers of Philox words, in arithmetic that host and device share: the same bits on both.
#pragma once

#include <cstdint>

#include "runtime/base/philox.h"
#include "runtime/base/vector_math.h"

namespace flow {

/// ln x of a positive normal number, within 2 units in the last place. As math::log of a float,
/// with more terms.
FLOW_INLINE double log_of_normal(double x) {
  constexpr double kLn2High = 0x1.62e42feep-1,
                   kLn2Low = 0x1.a39ef35793c76p-33;  // 32 bits, the rest
  constexpr uint64_t kRootOfHalf = 0x3FE6A09E667F3BCD, kBias = 1023;
  constexpr double kRound = 0x1p52;  // the low bits of 2^52 + k are those of k
  const auto bits = bits_as<uint64_t>(x);
  const uint64_t exponent = (bits - kRootOfHalf + (kBias << 52)) >> 52;  // biased
  const double f = bits_as<double>(bits - ((exponent - kBias) << 52)) - 1;
  const double k =
      bits_as<double>(bits_as<uint64_t>(kRound) + exponent) - (kRound + static_cast<double>(kBias));
  const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  double p = 2.0 / 21;
  p = p * z + 2.0 / 19;
  p = p * z + 2.0 / 17;
  p = p * z + 2.0 / 15;
  p = p * z + 2.0 / 13;
  p = p * z + 2.0 / 11;
  p = p * z + 2.0 / 9;
  p = p * z + 2.0 / 7;
  p = p * z + 2.0 / 5;
  p = p * z + 2.0 / 3;
  return k * kLn2High + (f - (half - (s * (half + p * z) + k * kLn2Low)));
}

/// Sine and cosine of an angle.
struct OnCircle {
  double sine, cosine;
};

/// Of 2 pi n / 2^24: a whole number of quarter turns, and the rest by Taylor. Within 2 units in the
/// last place.
FLOW_INLINE OnCircle on_circle(uint32_t n) {
  constexpr double kAngle = 0x1.921fb54442d18p-22;  // 2 pi / 2^24
  const uint32_t quarters = (n + (1U << 21)) >> 22;
  const double r = static_cast<double>(static_cast<int32_t>(n - (quarters << 22))) * kAngle;
  const double z = r * r;
  double s = 1.0 / 355687428096000;  // 1 / 17!
  s = s * z - 1.0 / 1307674368000;
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  double c = 1.0 / 20922789888000;  // 1 / 16!
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  const double sine = r + r * z * s, cosine = 1 - (0.5 * z - z * z * c);
  const double first = (quarters & 1) != 0 ? cosine : sine;
  const double second = (quarters & 1) != 0 ? sine : cosine;
  return {(quarters & 2) != 0 ? -first : first, ((quarters + 1) & 2) != 0 ? -second : second};
}

/// u in [0, 1), a multiple of 2^-24.
FLOW_INLINE double unit_of(uint32_t word) { return static_cast<double>(word >> 8) * 0x1p-24; }

/// Two numbers of the standard normal distribution (Box and Muller, 1958), of two adjacent words:
/// sine is the second.
FLOW_INLINE OnCircle normals_of(uint32_t first, uint32_t second) {
  const double u = (static_cast<double>(first >> 8) + 1) * 0x1p-24;
  const double radius = math::sqrt(-2 * log_of_normal(u));
  const OnCircle at = on_circle(second >> 8);
  return {radius * at.sine, radius * at.cosine};
}

/// A number of the standard Gumbel distribution. u is halfway between multiples of 2^-24: neither 0
/// nor 1.
FLOW_INLINE double gumbel_of(uint32_t word) {
  return -log_of_normal(-log_of_normal(unit_of(word) + 0x1p-25));
}

// Element i of a draw takes number i % 4 of what a block's words make. `k` is that number.

struct NormalDraw {
  double mean, stddev;
  FLOW_INLINE double value(const PhiloxBlock& block, int k) const {
    const uint32_t first = k < 2 ? block.words[0] : block.words[2];
    const uint32_t second = k < 2 ? block.words[1] : block.words[3];
    const OnCircle z = normals_of(first, second);
    return mean + stddev * (k % 2 == 0 ? z.cosine : z.sine);
  }
};

struct UniformDraw {
  double minimum, range;
  FLOW_INLINE double value(const PhiloxBlock& block, int k) const {
    return minimum + range * unit_of(block.word(k));
  }
};

struct GumbelDraw {
  FLOW_INLINE double value(const PhiloxBlock& block, int k) const {
    return gumbel_of(block.word(k));
  }
};

/// Is an event of that probability true of a word? Not where it is NaN.
FLOW_INLINE bool happens(double probability, uint32_t word) {
  return static_cast<double>(word) < probability * 0x1p32;
}

/// Draws indices in proportion to the weights of a row. These are summed in pieces, each from its
/// first weight to its last, so that devices agree and a draw needs to look at one piece only.
inline constexpr int64_t kWeightsOfPiece = 64;

/// Weights that are negative or NaN count as 0.
template <typename T>
FLOW_INLINE double weight_of(T x) {
  return x > T(0) ? static_cast<double>(x) : 0.0;
}

template <typename T>
FLOW_INLINE double sum_of_piece(const T* weights, int64_t classes, int64_t piece) {
  const int64_t first = piece * kWeightsOfPiece, rest = classes - first;
  const int64_t count = rest < kWeightsOfPiece ? rest : kWeightsOfPiece;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += weight_of(weights[first + i]);
  return sum;
}

/// ends[p] becomes the sum of pieces 0 ... p, given the sum of each.
FLOW_INLINE void add_pieces(double* ends, int64_t pieces) {
  for (int64_t p = 1; p < pieces; ++p) ends[p] += ends[p - 1];
}

/// The first index up to which the weights add up to more than the word's share of all; -1 where
/// there is no finite positive sum. `ends`: of pieces, as add_pieces makes them.
template <typename T>
FLOW_INLINE int64_t drawn_index(const T* weights, int64_t classes, const double* ends,
                                uint32_t word) {
  const int64_t pieces = (classes + kWeightsOfPiece - 1) / kWeightsOfPiece;
  const double all = ends[pieces - 1];
  if (!(all > 0 && all < 0x1p1023)) return -1;
  const double target = static_cast<double>(word) * 0x1p-32 * all;
  int64_t low = 0, high = pieces - 1;  // the first piece that ends beyond the target
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (ends[middle] > target)
      high = middle;
    else
      low = middle + 1;
  }
  const int64_t first = low * kWeightsOfPiece, rest = classes - first;
  const int64_t end = first + (rest < kWeightsOfPiece ? rest : kWeightsOfPiece);
  double sum = low > 0 ? ends[low - 1] : 0;
  int64_t last = first;  // that has a weight, for sums that rounding keeps below the target
  for (int64_t i = first; i < end; ++i) {
    const double weight = weight_of(weights[i]);
    if (weight > 0) last = i;
    sum += weight;
    if (sum > target) return i;
  }
  return last;
}

}  // namespace flow
