// The loops of batch normalization over the elements of a piece, compiled for the instruction sets
// of the CPU.
#include "ops/batch_norm/cpu_loops.h"

#include <algorithm>
#include <array>

#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/features.h"

namespace flow::cpu {
namespace {

template <bool kRectify>
[[gnu::always_inline]] inline float normal(float x, float center, float factor, float term) {
  const float y = (x - center) * factor + term;
  return kRectify && y <= 0 ? 0 : y;
}

/// Sums for each channel of a piece whose channels are innermost.
template <size_t kSums>
using RowSums = float[kSums][ChannelPieces::kMostInnermost];

/// Computes sums[k][c], the totals of what add_row(offset of a row, RowSums) adds for each row. It
/// adds a few rows in float, then these partial sums in float64, because a long float sum of
/// similar terms, such as an image's background, accumulates rounding errors.
template <size_t kSums, typename AddRow>
[[gnu::always_inline]] inline void sum_rows(const ChannelPiece& p,
                                            const std::array<double*, kSums>& sums,
                                            AddRow add_row) {
  constexpr int64_t kRun = 16;
  for (double* sum : sums) std::fill_n(sum, p.channels, 0.0);
  for (int64_t first = 0; first < p.rows; first += kRun) {
    RowSums<kSums> parts;
    for (float* part : parts) std::fill_n(part, p.channels, 0.0f);
    for (int64_t row = first; row < std::min(p.rows, first + kRun); ++row)
      add_row(row * p.row_stride, parts);
    for (size_t k = 0; k < kSums; ++k) {
#pragma omp simd
      for (int64_t c = 0; c < p.channels; ++c) sums[k][c] += static_cast<double>(parts[k][c]);
    }
  }
}

/// The constants that are applied to the elements of one channel.
struct ChannelConstants {
  float center, factor, term, mean, slope;
};

[[gnu::always_inline]] inline ChannelConstants constants_of(const PerChannel& k, int64_t c) {
  return {k.center[c], k.factor[c], k.term[c], k.mean[c], k.slope[c]};
}

/// Calls f(i, constants of its channel) for each element i of a piece.
template <typename F>
[[gnu::always_inline]] inline void for_elements(const ChannelPiece& p, const PerChannel& k, F f) {
  for (int64_t row = 0, at = 0; row < p.rows; ++row, at += p.row_stride) {
    if (p.inner == 1) {
#pragma omp simd
      for (int64_t c = 0; c < p.channels; ++c) f(at + c, constants_of(k, c));
      continue;
    }
    for (int64_t c = 0; c < p.channels; ++c) {
      const ChannelConstants own = constants_of(k, c);
      const int64_t first = at + c * p.inner;
#pragma omp simd
      for (int64_t i = first; i < first + p.inner; ++i) f(i, own);
    }
  }
}

/// Computes y = (x - center) factor + term, optionally followed by relu.
template <bool kRectify>
[[gnu::always_inline]] inline void normalize_piece(const ChannelPiece& p, const PerChannel& k,
                                                   const float* x, float* y) {
  for_elements(p, k, [=](int64_t i, const ChannelConstants& own) {
    y[i] = normal<kRectify>(x[i], own.center, own.factor, own.term);
  });
}

/// Returns dy, or 0 if a relu followed and its input was 0 or less. The input is recomputed
/// bit-identically.
template <bool kRectified>
[[gnu::always_inline]] inline float passed(float dy, float x, float center, float factor,
                                           float term) {
  return kRectified && normal<false>(x, center, factor, term) <= 0 ? 0 : dy;
}

/// Computes the sums of dy, and of dy times the difference of x from its mean.
template <bool kRectified>
[[gnu::always_inline]] inline void gradients_of_rows(const ChannelPiece& p, const PerChannel& k,
                                                     const float* dy, const float* x, double* sums,
                                                     double* products) {
  sum_rows<2>(p, {sums, products}, [&](int64_t row, RowSums<2>& parts) {
#pragma omp simd
    for (int64_t c = 0; c < p.channels; ++c) {
      const float from = x[row + c];
      const float g = passed<kRectified>(dy[row + c], from, k.center[c], k.factor[c], k.term[c]);
      parts[0][c] += g;
      parts[1][c] += g * (from - k.center[c]);
    }
  });
}

template <bool kRectified>
[[gnu::always_inline]] inline void gradients_of_runs(const ChannelPiece& p, const PerChannel& k,
                                                     const float* dy, const float* x, double* sums,
                                                     double* products) {
  for (int64_t c = 0; c < p.channels; ++c) {
    const float center = k.center[c], factor = k.factor[c], term = k.term[c];
    double sum = 0, product = 0;
    for (int64_t row = 0; row < p.rows; ++row) {
      const float* g = dy + c * p.inner + row * p.row_stride;
      const float* from = x + c * p.inner + row * p.row_stride;
      const auto gradient = [=](int64_t i) {
        return passed<kRectified>(g[i], from[i], center, factor, term);
      };
      add_terms(p.inner, sum, gradient);
      add_terms(p.inner, product, [=](int64_t i) { return gradient(i) * (from[i] - center); });
    }
    sums[c] = sum;
    products[c] = product;
  }
}

template <bool kRectified>
[[gnu::always_inline]] inline void gradients_of_piece(const ChannelPiece& p, const PerChannel& k,
                                                      const float* dy, const float* x, double* sums,
                                                      double* products) {
  if (p.inner == 1)
    gradients_of_rows<kRectified>(p, k, dy, x, sums, products);
  else
    gradients_of_runs<kRectified>(p, k, dy, x, sums, products);
}

/// Computes dx = factor (dy - mean - (x - center) slope).
template <bool kRectified>
[[gnu::always_inline]] inline void differentiate_piece(const ChannelPiece& p, const PerChannel& k,
                                                       const float* dy, const float* x, float* dx) {
  for_elements(p, k, [=](int64_t i, const ChannelConstants& own) {
    const float g = passed<kRectified>(dy[i], x[i], own.center, own.factor, own.term);
    dx[i] = own.factor * (g - own.mean - (x[i] - own.center) * own.slope);
  });
}

}  // namespace

FLOW_VECTORIZED void moments_of_rows(const ChannelPiece& p, const float* x, double* mean,
                                     double* squares) {
  sum_rows<1>(p, {mean}, [&](int64_t row, RowSums<1>& parts) {
#pragma omp simd
    for (int64_t c = 0; c < p.channels; ++c) parts[0][c] += x[row + c];
  });
  float center[ChannelPieces::kMostInnermost];
  for (int64_t c = 0; c < p.channels; ++c) {
    mean[c] /= static_cast<double>(p.rows);
    center[c] = static_cast<float>(mean[c]);
  }
  sum_rows<1>(p, {squares}, [&](int64_t row, RowSums<1>& parts) {
#pragma omp simd
    for (int64_t c = 0; c < p.channels; ++c) {
      const float off = x[row + c] - center[c];
      parts[0][c] += off * off;
    }
  });
}

FLOW_VECTORIZED void moments_of_runs(const ChannelPiece& p, const float* x, double* mean,
                                     double* squares) {
  for (int64_t c = 0; c < p.channels; ++c, x += p.inner) {
    double sum = 0, sum_of_squares = 0;
    for (int64_t row = 0; row < p.rows; ++row) {
      const float* run = x + row * p.row_stride;
      add_terms(p.inner, sum, [=](int64_t i) { return run[i]; });
    }
    mean[c] = sum / static_cast<double>(p.rows * p.inner);
    const auto center = static_cast<float>(mean[c]);
    for (int64_t row = 0; row < p.rows; ++row) {
      const float* run = x + row * p.row_stride;
      add_terms(p.inner, sum_of_squares,
                [=](int64_t i) { return (run[i] - center) * (run[i] - center); });
    }
    squares[c] = sum_of_squares;
  }
}

FLOW_VECTORIZED void normalize(const ChannelPiece& p, const PerChannel& k, bool rectify,
                               const float* x, float* y) {
  if (rectify)
    normalize_piece<true>(p, k, x, y);
  else
    normalize_piece<false>(p, k, x, y);
}

FLOW_VECTORIZED void gradients_of(const ChannelPiece& p, const PerChannel& k, bool rectified,
                                  const float* dy, const float* x, double* sums, double* products) {
  if (rectified)
    gradients_of_piece<true>(p, k, dy, x, sums, products);
  else
    gradients_of_piece<false>(p, k, dy, x, sums, products);
}

FLOW_VECTORIZED void differentiate(const ChannelPiece& p, const PerChannel& k, bool rectified,
                                   const float* dy, const float* x, float* dx) {
  if (rectified)
    differentiate_piece<true>(p, k, dy, x, dx);
  else
    differentiate_piece<false>(p, k, dy, x, dx);
}

}  // namespace flow::cpu
