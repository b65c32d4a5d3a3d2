// layer_normalize, rms_normalize: rows of adjacent features, each normalized by its own mean and
// variance or divided by its root mean square, and their gradients. Sums over rows are computed for
// chunks of rows, which are then added in order in float64.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/feature_norm/problem.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// Sets out[i] to the sum of parts[k * n + i] over the chunks k, for `count` features.
FLOW_VECTORIZED void add_columns(const float* parts, int64_t chunks, int64_t n, int64_t count,
                                 float* out) {
  constexpr int64_t kAtOnce = 64;
  for (int64_t first = 0; first < count; first += kAtOnce) {
    const int64_t block = std::min(kAtOnce, count - first);
    double sums[kAtOnce] = {};
    for (int64_t k = 0; k < chunks; ++k) {
#pragma omp simd
      for (int64_t i = 0; i < block; ++i) sums[i] += static_cast<double>(parts[k * n + first + i]);
    }
    for (int64_t i = 0; i < block; ++i) out[first + i] = static_cast<float>(sums[i]);
  }
}

/// The rows of a step, divided into chunks.
struct RowChunks : FeatureRows {
  explicit RowChunks(const Request& request)
      : FeatureRows(request.step.attributes, request.inputs[0].shape),
        // Each row is read twice, so a chunk has few rows. It has enough of them that the chunk's
        // sums for the gradients are small in comparison.
        chunk(std::clamp<int64_t>(kPiece / features, 16, 1024)),
        threads(request.threads) {}

  int64_t chunks() const { return ceil_div(rows, chunk); }
  int64_t elements_of_parts() const { return chunks() * features; }

  /// Sets out[i] to the sum of parts[k, i] over the chunks k.
  void add_parts(const float* parts, float* out) const {
    constexpr int64_t kColumnsOfPiece = 256;
    for_pieces(threads, features, kColumnsOfPiece, [&](int64_t first, int64_t end) {
      add_columns(parts + first, chunks(), features, end - first, out + first);
    });
  }

  int64_t chunk;
  int threads;
};

// If kCentered is true, rows have a mean and a variance. Otherwise they are divided by their root
// mean square.

/// The statistics of rows; null if nothing reads them.
struct RowStatistics {
  float *mean, *variance, *inverse;
};

template <bool kCentered>
[[gnu::always_inline]] inline void normalize_features(const float* x, int64_t rows, int64_t n,
                                                      double epsilon, const float* gamma,
                                                      const float* beta, float* y,
                                                      const RowStatistics& statistics) {
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    double sum = 0, squares = 0;
    if (kCentered) add_terms(n, sum, [=](int64_t i) { return x[i]; });
    const float mean = kCentered ? static_cast<float>(sum / static_cast<double>(n)) : 0;
    add_terms(n, squares, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
    const double variance = squares / static_cast<double>(n);
    const auto inverse = static_cast<float>(1 / std::sqrt(variance + epsilon));
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float normal = (x[i] - mean) * inverse * gamma[i];
      y[i] = kCentered ? normal + beta[i] : normal;
    }
    if (statistics.mean) statistics.mean[row] = mean;
    if (statistics.variance) statistics.variance[row] = static_cast<float>(variance);
    if (statistics.inverse) statistics.inverse[row] = inverse;
  }
}

FLOW_VECTORIZED void normalize_rows(bool centered, const float* x, int64_t rows, int64_t n,
                                    double epsilon, const float* gamma, const float* beta, float* y,
                                    const RowStatistics& statistics) {
  if (centered)
    normalize_features<true>(x, rows, n, epsilon, gamma, beta, y, statistics);
  else
    normalize_features<false>(x, rows, n, epsilon, gamma, beta, y, statistics);
}

/// The statistics by which a row was normalized.
struct RowNormal {
  float mean, inverse;
};

/// The sums over a chunk's rows; null if nothing reads them.
struct FeatureSums {
  float *dgamma, *dbeta;
};

template <bool kCentered>
[[gnu::always_inline]] inline void differentiate_features(const float* dy, const float* x,
                                                          int64_t n, const RowNormal& row,
                                                          const float* gamma, float* dx,
                                                          const FeatureSums& sums) {
  const float mean = kCentered ? row.mean : 0, inverse = row.inverse;
  double sum = 0, product = 0;
  if (kCentered) add_terms(n, sum, [=](int64_t i) { return dy[i] * gamma[i]; });
  add_terms(n, product, [=](int64_t i) { return dy[i] * gamma[i] * (x[i] - mean); });
  const float term = kCentered ? static_cast<float>(sum / static_cast<double>(n)) : 0;
  const auto slope = static_cast<float>(product / static_cast<double>(n)) * inverse * inverse;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    dx[i] = inverse * (dy[i] * gamma[i] - term - (x[i] - mean) * slope);
  if (sums.dgamma) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sums.dgamma[i] += dy[i] * ((x[i] - mean) * inverse);
  }
  if (sums.dbeta) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sums.dbeta[i] += dy[i];
  }
}

FLOW_VECTORIZED void differentiate_row(bool centered, const float* dy, const float* x, int64_t n,
                                       const RowNormal& row, const float* gamma, float* dx,
                                       const FeatureSums& sums) {
  if (centered)
    differentiate_features<true>(dy, x, n, row, gamma, dx, sums);
  else
    differentiate_features<false>(dy, x, n, row, gamma, dx, sums);
}

/// Returns element i of a result, or null if the step does not have the result.
float* statistic_at(const Buffers& b, size_t result, int64_t i) {
  float* all = output<float>(b, result);
  return all ? all + i : nullptr;
}

/// Computes y, and the mean and variance of rows or their 1 / rms, from x, gamma and, for centered
/// rows, beta.
template <bool kCentered>
Kernel prepare_features(const Request& request) {
  return {[r = RowChunks(request)](const Buffers& b, const CallState&) {
    for_pieces(r.threads, r.rows, r.chunk, [&](int64_t first, int64_t end) {
      const int64_t at = first * r.features;
      const RowStatistics statistics =
          kCentered ? RowStatistics{statistic_at(b, 1, first), statistic_at(b, 2, first), nullptr}
                    : RowStatistics{nullptr, nullptr, statistic_at(b, 1, first)};
      normalize_rows(kCentered, input<float>(b, 0) + at, end - first, r.features, r.epsilon,
                     input<float>(b, 1), kCentered ? input<float>(b, 2) : nullptr,
                     output<float>(b, 0) + at, statistics);
    });
  }};
}

/// Computes dx, dgamma and, for centered rows, dbeta from dy, x, gamma and the statistics of the
/// forward pass.
template <bool kCentered>
Kernel prepare_features_grad(const Request& request) {
  const RowChunks r(request);
  const int64_t sums = kCentered ? 2 : 1;
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(sums * r.elements_of_parts()) * sizeof(float);
  kernel.launch = [=](const Buffers& b, const CallState&) {
    float *dgamma = output<float>(b, 1), *dbeta = kCentered ? output<float>(b, 2) : nullptr;
    auto* parts = reinterpret_cast<float*>(b.workspace);
    for_pieces(r.threads, r.rows, r.chunk, [&](int64_t first, int64_t end) {
      float* part = parts + first / r.chunk * r.features;
      const FeatureSums own{dgamma ? part : nullptr,
                            dbeta ? part + r.elements_of_parts() : nullptr};
      if (own.dgamma) std::fill_n(own.dgamma, r.features, 0.0f);
      if (own.dbeta) std::fill_n(own.dbeta, r.features, 0.0f);
      for (int64_t row = first; row < end; ++row) {
        const float kept = input<float>(b, 3)[row];
        const auto constants =
            kCentered ? RowNormal{kept, static_cast<float>(
                                            1 / std::sqrt(double_at<float>(b, 4, row) + r.epsilon))}
                      : RowNormal{0, kept};
        const int64_t at = row * r.features;
        differentiate_row(kCentered, input<float>(b, 0) + at, input<float>(b, 1) + at, r.features,
                          constants, input<float>(b, 2), output<float>(b, 0) + at, own);
      }
    });
    if (dgamma) r.add_parts(parts, dgamma);
    if (dbeta) r.add_parts(parts + r.elements_of_parts(), dbeta);
  };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> feature_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"layer_normalize", prepare_features<true>},
      {"layer_normalize_grad", prepare_features_grad<true>},
      {"rms_normalize", prepare_features<false>},
      {"rms_normalize_grad", prepare_features_grad<false>},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
