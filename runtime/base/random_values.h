// Random numbers from Philox words, in arithmetic that host and device share, so that their results
// are bit-identical.
#pragma once

#include <cstdint>

#include "runtime/base/philox.h"
#include "runtime/base/vector_math.h"

namespace flow {

/// Returns ln x of a positive normal number, within 2 units in the last place. It is the algorithm
/// of math::log for a float, with more terms.
FLOW_INLINE double log_of_normal(double x) {
  constexpr double kLn2High = 0x1.62e42feep-1,
                   kLn2Low = 0x1.a39ef35793c76p-33;  // the first 32 bits of ln 2, and the rest
  constexpr uint64_t kRootOfHalf = 0x3FE6A09E667F3BCD, kBias = 1023;
  constexpr double kRound = 0x1p52;  // 2^52 + k has the bits of k in its low bits.
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

/// The sine and cosine of an angle.
struct OnCircle {
  double sine, cosine;
};

/// Returns the sine and cosine of 2 pi n / 2^24. The angle is a whole number of quarter turns and a
/// rest, for which Taylor series are used. The error is at most 2 units in the last place.
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

/// Returns u in [0, 1), a multiple of 2^-24.
FLOW_INLINE double unit_of(uint32_t word) { return static_cast<double>(word >> 8) * 0x1p-24; }

/// Returns two numbers of the standard normal distribution (Box and Muller, 1958) from two adjacent
/// words. The first number is `cosine`, the second is `sine`.
FLOW_INLINE OnCircle normals_of(uint32_t first, uint32_t second) {
  const double u = (static_cast<double>(first >> 8) + 1) * 0x1p-24;
  const double radius = math::sqrt(-2 * log_of_normal(u));
  const OnCircle at = on_circle(second >> 8);
  return {radius * at.sine, radius * at.cosine};
}

/// Returns a number of the standard Gumbel distribution. Its u is halfway between multiples of
/// 2^-24, and therefore neither 0 nor 1.
FLOW_INLINE double gumbel_of(uint32_t word) {
  return -log_of_normal(-log_of_normal(unit_of(word) + 0x1p-25));
}

// Element i of a draw is number `k` = i % 4 of the four numbers that a block gives.

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

/// Returns true if an event with this probability happens for a word. A NaN never happens.
FLOW_INLINE bool happens(double probability, uint32_t word) {
  return static_cast<double>(word) < probability * 0x1p32;
}

/// Draws indices in proportion to the weights of a row. The weights are summed in pieces, each from
/// its first weight to its last, so that all devices get the same sums and a draw only reads the
/// weights of one piece.
inline constexpr int64_t kWeightsOfPiece = 64;

/// Returns a weight as a double. Weights that are negative or NaN count as 0.
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

/// Turns the sum of each piece, ends[p], into the sum of pieces 0 ... p.
FLOW_INLINE void add_pieces(double* ends, int64_t pieces) {
  for (int64_t p = 1; p < pieces; ++p) ends[p] += ends[p - 1];
}

/// Returns the first index for which the sum of the weights up to it exceeds the word's share of
/// the total, or -1 if the total is not finite and positive. `ends` are the sums of add_pieces().
template <typename T>
FLOW_INLINE int64_t drawn_index(const T* weights, int64_t classes, const double* ends,
                                uint32_t word) {
  const int64_t pieces = (classes + kWeightsOfPiece - 1) / kWeightsOfPiece;
  const double all = ends[pieces - 1];
  if (!(all > 0 && all < 0x1p1023)) return -1;
  const double target = static_cast<double>(word) * 0x1p-32 * all;
  // Bounds of the search for the first piece that ends above the target.
  int64_t low = 0, high = pieces - 1;
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
  // The last index with a weight, which is the result if rounding keeps the sum below the target.
  int64_t last = first;
  for (int64_t i = first; i < end; ++i) {
    const double weight = weight_of(weights[i]);
    if (weight > 0) last = i;
    sum += weight;
    if (sum > target) return i;
  }
  return last;
}

}  // namespace flow
