// layer_normalize, rms_normalize: rows of adjacent features, each normalized by its own mean and
// variance or divided by its root mean square; and their gradients. The sums over rows are those of
// chunks of rows, added up in order in float64.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// [rows, features]
struct FeatureRows {
  /// Operand 0, whose features begin at the step's attribute `axis`.
  explicit FeatureRows(const Request& request);

  int64_t chunks() const { return ceil_div(rows, chunk); }
  int64_t elements_of_parts() const { return chunks() * features; }

  /// Calls body(first, end) for each chunk of rows.
  template <typename Body>
  void for_chunks(int threads, Body body) const {
    for_pieces(threads, rows, chunk, body);
  }

  /// out[i] = the sum of parts[k, i] over the chunks k.
  void add_parts(int threads, const float* parts, float* out) const;

  int64_t rows, features, chunk;
};

/// out[i] = the sum of parts[k * n + i] over the chunks, for `count` features.
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

FeatureRows::FeatureRows(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const int axis = axis_of(request);
  rows = x.elements(0, axis);
  features = x.elements(axis, x.rank());
  // Rows are read twice, so few at a time; the gradients' sums must be few beside them.
  chunk = std::clamp<int64_t>(kPiece / features, 16, 1024);
}

void FeatureRows::add_parts(int threads, const float* parts, float* out) const {
  constexpr int64_t kColumnsOfPiece = 256;
  for_pieces(threads, features, kColumnsOfPiece, [&](int64_t first, int64_t end) {
    add_columns(parts + first, chunks(), features, end - first, out + first);
  });
}

/// Statistics of rows; may be null.
struct RowStatistics {
  float *mean, *variance;
};

FLOW_VECTORIZED void normalize_rows(const float* x, int64_t rows, int64_t n, double epsilon,
                                    const float* gamma, const float* beta, float* y,
                                    RowStatistics statistics) {
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    double sum = 0, squares = 0;
    add_terms(n, sum, [=](int64_t i) { return x[i]; });
    const auto mean = static_cast<float>(sum / static_cast<double>(n));
    add_terms(n, squares, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
    const double variance = squares / static_cast<double>(n);
    const auto inverse = static_cast<float>(1 / std::sqrt(variance + epsilon));
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
    if (statistics.mean) statistics.mean[row] = mean;
    if (statistics.variance) statistics.variance[row] = static_cast<float>(variance);
  }
}

/// Where the sums over a chunk's rows go; null where nobody wants them.
struct FeatureSums {
  float *dgamma, *dbeta;
};

FLOW_VECTORIZED void differentiate_rows(const float* dy, const float* x, int64_t rows, int64_t n,
                                        double epsilon, const float* gamma, const float* means,
                                        const float* variances, float* dx, FeatureSums sums) {
  if (sums.dgamma) std::fill_n(sums.dgamma, n, 0.0f);
  if (sums.dbeta) std::fill_n(sums.dbeta, n, 0.0f);
  for (int64_t row = 0; row < rows; ++row, dy += n, x += n, dx += n) {
    const float mean = means[row];
    const auto inverse =
        static_cast<float>(1 / std::sqrt(static_cast<double>(variances[row]) + epsilon));
    double sum = 0, product = 0;
    add_terms(n, sum, [=](int64_t i) { return dy[i] * gamma[i]; });
    add_terms(n, product, [=](int64_t i) { return dy[i] * gamma[i] * (x[i] - mean); });
    const auto term = static_cast<float>(sum / static_cast<double>(n));
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
}

Kernel prepare_layer_normalize(const Request& request) {
  Kernel kernel;
  kernel.launch = [r = FeatureRows(request), epsilon = number(request, "epsilon"),
                   threads = request.threads](const Buffers& b, const CallState&) {
    float *mean = output<float>(b, 1), *variance = output<float>(b, 2);
    r.for_chunks(threads, [&](int64_t first, int64_t end) {
      normalize_rows(input<float>(b, 0) + first * r.features, end - first, r.features, epsilon,
                     input<float>(b, 1), input<float>(b, 2),
                     output<float>(b, 0) + first * r.features,
                     {mean ? mean + first : nullptr, variance ? variance + first : nullptr});
    });
  };
  return kernel;
}

Kernel prepare_layer_normalize_grad(const Request& request) {
  const FeatureRows r(request);
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(2 * r.elements_of_parts()) * sizeof(float);
  kernel.launch = [r, epsilon = number(request, "epsilon"), threads = request.threads](
                      const Buffers& b, const CallState&) {
    float *dgamma = output<float>(b, 1), *dbeta = output<float>(b, 2);
    float* parts[2] = {reinterpret_cast<float*>(b.workspace),
                       reinterpret_cast<float*>(b.workspace) + r.elements_of_parts()};
    r.for_chunks(threads, [&](int64_t first, int64_t end) {
      const int64_t at = first * r.features, part = first / r.chunk * r.features;
      differentiate_rows(input<float>(b, 0) + at, input<float>(b, 1) + at, end - first, r.features,
                         epsilon, input<float>(b, 2), input<float>(b, 3) + first,
                         input<float>(b, 4) + first, output<float>(b, 0) + at,
                         {dgamma ? parts[0] + part : nullptr, dbeta ? parts[1] + part : nullptr});
    });
    if (dgamma) r.add_parts(threads, parts[0], dgamma);
    if (dbeta) r.add_parts(threads, parts[1], dbeta);
  };
  return kernel;
}

/// `inverses`, 1 / rms of each row, may be null.
FLOW_VECTORIZED void rms_normalize_rows(const float* x, int64_t rows, int64_t n, double epsilon,
                                        const float* gamma, float* y, float* inverses) {
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    double squares = 0;
    add_terms(n, squares, [=](int64_t i) { return x[i] * x[i]; });
    const double mean = squares / static_cast<double>(n);
    const auto inverse = static_cast<float>(1 / std::sqrt(mean + epsilon));
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * inverse * gamma[i];
    if (inverses) inverses[row] = inverse;
  }
}

/// `dgamma`, the sum over these rows, may be null.
FLOW_VECTORIZED void rms_differentiate_rows(const float* dy, const float* x, int64_t rows,
                                            int64_t n, const float* gamma, const float* inverses,
                                            float* dx, float* dgamma) {
  if (dgamma) std::fill_n(dgamma, n, 0.0f);
  for (int64_t row = 0; row < rows; ++row, dy += n, x += n, dx += n) {
    const float inverse = inverses[row];
    double product = 0;
    add_terms(n, product, [=](int64_t i) { return dy[i] * gamma[i] * x[i]; });
    const auto slope = static_cast<float>(product / static_cast<double>(n)) * inverse * inverse;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = inverse * (dy[i] * gamma[i] - x[i] * slope);
    if (!dgamma) continue;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dgamma[i] += dy[i] * (x[i] * inverse);
  }
}

Kernel prepare_rms_normalize(const Request& request) {
  Kernel kernel;
  kernel.launch = [r = FeatureRows(request), epsilon = number(request, "epsilon"),
                   threads = request.threads](const Buffers& b, const CallState&) {
    r.for_chunks(threads, [&](int64_t first, int64_t end) {
      const int64_t at = first * r.features;
      float* inverses = output<float>(b, 1);
      rms_normalize_rows(input<float>(b, 0) + at, end - first, r.features, epsilon,
                         input<float>(b, 1), output<float>(b, 0) + at,
                         inverses ? inverses + first : nullptr);
    });
  };
  return kernel;
}

Kernel prepare_rms_normalize_grad(const Request& request) {
  const FeatureRows r(request);
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(r.elements_of_parts()) * sizeof(float);
  kernel.launch = [r, threads = request.threads](const Buffers& b, const CallState&) {
    float* dgamma = output<float>(b, 1);
    auto* parts = reinterpret_cast<float*>(b.workspace);
    r.for_chunks(threads, [&](int64_t first, int64_t end) {
      const int64_t at = first * r.features, part = first / r.chunk * r.features;
      rms_differentiate_rows(input<float>(b, 0) + at, input<float>(b, 1) + at, end - first,
                             r.features, input<float>(b, 2), input<float>(b, 3) + first,
                             output<float>(b, 0) + at, dgamma ? parts + part : nullptr);
    });
    if (dgamma) r.add_parts(threads, parts, dgamma);
  };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> feature_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"layer_normalize", prepare_layer_normalize},
      {"layer_normalize_grad", prepare_layer_normalize_grad},
      {"rms_normalize", prepare_rms_normalize},
      {"rms_normalize_grad", prepare_rms_normalize_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
