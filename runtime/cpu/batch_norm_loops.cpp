// The loops of batch normalization over a piece's elements, compiled for what the CPU has.
#include "runtime/cpu/batch_norm_loops.h"

#include <algorithm>

#include "runtime/cpu/features.h"
#include "runtime/cpu/runs.h"

namespace flow::cpu {
namespace {

template <bool kRectify>
[[gnu::always_inline]] inline float normal(float x, float center, float factor, float term) {
  const float y = (x - center) * factor + term;
  return !kRectify || y > 0 ? y : 0;
}

/// y = (x - center) factor + term, and relu of it.
template <bool kRectify>
[[gnu::always_inline]] inline void normalise_piece(const ChannelPiece& p, const PerChannel& k,
                                                   const float* x, float* y) {
  for (int64_t row = 0; row < p.rows; ++row, x += p.row_stride, y += p.row_stride) {
    if (p.inner == 1) {
#pragma omp simd
      for (int64_t c = 0; c < p.channels; ++c)
        y[c] = normal<kRectify>(x[c], k.center[c], k.factor[c], k.term[c]);
      continue;
    }
    for (int64_t c = 0; c < p.channels; ++c) {
      const float center = k.center[c], factor = k.factor[c], term = k.term[c];
      const float* from = x + c * p.inner;
      float* to = y + c * p.inner;
#pragma omp simd
      for (int64_t i = 0; i < p.inner; ++i) to[i] = normal<kRectify>(from[i], center, factor, term);
    }
  }
}

/// dy where relu has passed it on: where the result, computed anew with the same bits, is above 0.
template <bool kRectified>
[[gnu::always_inline]] inline float passed(float dy, float x, float center, float factor,
                                           float term) {
  return !kRectified || normal<false>(x, center, factor, term) > 0 ? dy : 0;
}

/// Sums of dy, and of dy times x's distance from its mean.
template <bool kRectified>
[[gnu::always_inline]] inline void gradients_of_rows(const ChannelPiece& p, const PerChannel& k,
                                                     const float* dy, const float* x, float* sums,
                                                     float* products) {
  std::fill_n(sums, p.channels, 0.0f);
  std::fill_n(products, p.channels, 0.0f);
  for (int64_t row = 0; row < p.rows; ++row, dy += p.row_stride, x += p.row_stride) {
#pragma omp simd
    for (int64_t c = 0; c < p.channels; ++c) {
      const float g = passed<kRectified>(dy[c], x[c], k.center[c], k.factor[c], k.term[c]);
      sums[c] += g;
      products[c] += g * (x[c] - k.center[c]);
    }
  }
}

template <bool kRectified>
[[gnu::always_inline]] inline void gradients_of_runs(const ChannelPiece& p, const PerChannel& k,
                                                     const float* dy, const float* x, float* sums,
                                                     float* products) {
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
    sums[c] = static_cast<float>(sum);
    products[c] = static_cast<float>(product);
  }
}

template <bool kRectified>
[[gnu::always_inline]] inline void gradients_of_piece(const ChannelPiece& p, const PerChannel& k,
                                                      const float* dy, const float* x, float* sums,
                                                      float* products) {
  if (p.inner == 1)
    gradients_of_rows<kRectified>(p, k, dy, x, sums, products);
  else
    gradients_of_runs<kRectified>(p, k, dy, x, sums, products);
}

/// dx = factor (dy - mean - (x - center) slope)
template <bool kRectified>
[[gnu::always_inline]] inline void differentiate_piece(const ChannelPiece& p, const PerChannel& k,
                                                       const float* dy, const float* x, float* dx) {
  for (int64_t row = 0; row < p.rows; ++row) {
    const int64_t at = row * p.row_stride;
    if (p.inner == 1) {
#pragma omp simd
      for (int64_t c = 0; c < p.channels; ++c) {
        const float from = x[at + c];
        const float g = passed<kRectified>(dy[at + c], from, k.center[c], k.factor[c], k.term[c]);
        dx[at + c] = k.factor[c] * (g - k.mean[c] - (from - k.center[c]) * k.slope[c]);
      }
      continue;
    }
    for (int64_t c = 0; c < p.channels; ++c) {
      const float center = k.center[c], factor = k.factor[c], term = k.term[c];
      const float mean = k.mean[c], slope = k.slope[c];
      const int64_t first = at + c * p.inner;
#pragma omp simd
      for (int64_t i = first; i < first + p.inner; ++i) {
        const float g = passed<kRectified>(dy[i], x[i], center, factor, term);
        dx[i] = factor * (g - mean - (x[i] - center) * slope);
      }
    }
  }
}

}  // namespace

/// Means of a piece's channels, and sums of squared distances from them.
FLOW_VECTORISED void moments_of_rows(const ChannelPiece& p, const float* x, float* mean,
                                     float* squares) {
  std::fill_n(mean, p.channels, 0.0f);
  std::fill_n(squares, p.channels, 0.0f);
  for (int64_t row = 0; row < p.rows; ++row) {
    const float* from = x + row * p.row_stride;
#pragma omp simd
    for (int64_t c = 0; c < p.channels; ++c) mean[c] += from[c];
  }
  const float one_of = 1 / static_cast<float>(p.rows);
#pragma omp simd
  for (int64_t c = 0; c < p.channels; ++c) mean[c] *= one_of;
  for (int64_t row = 0; row < p.rows; ++row) {
    const float* from = x + row * p.row_stride;
#pragma omp simd
    for (int64_t c = 0; c < p.channels; ++c) {
      const float off = from[c] - mean[c];
      squares[c] += off * off;
    }
  }
}

FLOW_VECTORISED void moments_of_runs(const ChannelPiece& p, const float* x, float* mean,
                                     float* squares) {
  for (int64_t c = 0; c < p.channels; ++c, x += p.inner) {
    double sum = 0, sum_of_squares = 0;
    for (int64_t row = 0; row < p.rows; ++row) {
      const float* run = x + row * p.row_stride;
      add_terms(p.inner, sum, [=](int64_t i) { return run[i]; });
    }
    const auto center = static_cast<float>(sum / static_cast<double>(p.rows * p.inner));
    for (int64_t row = 0; row < p.rows; ++row) {
      const float* run = x + row * p.row_stride;
      add_terms(p.inner, sum_of_squares,
                [=](int64_t i) { return (run[i] - center) * (run[i] - center); });
    }
    mean[c] = center;
    squares[c] = static_cast<float>(sum_of_squares);
  }
}

FLOW_VECTORISED void normalise(const ChannelPiece& p, const PerChannel& k, bool rectify,
                               const float* x, float* y) {
  if (rectify)
    normalise_piece<true>(p, k, x, y);
  else
    normalise_piece<false>(p, k, x, y);
}

FLOW_VECTORISED void gradients_of(const ChannelPiece& p, const PerChannel& k, bool rectified,
                                  const float* dy, const float* x, float* sums, float* products) {
  if (rectified)
    gradients_of_piece<true>(p, k, dy, x, sums, products);
  else
    gradients_of_piece<false>(p, k, dy, x, sums, products);
}

FLOW_VECTORISED void differentiate(const ChannelPiece& p, const PerChannel& k, bool rectified,
                                   const float* dy, const float* x, float* dx) {
  if (rectified)
    differentiate_piece<true>(p, k, dy, x, dx);
  else
    differentiate_piece<false>(p, k, dy, x, dx);
}

}  // namespace flow::cpu
