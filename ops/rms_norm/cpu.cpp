// rms_normalize: rows of adjacent features, each divided by its root mean square; and its
// gradients. The sums over rows are those of chunks of rows, added up in order in float64.
#include <algorithm>
#include <cmath>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/feature_rows.h"
#include "runtime/cpu/loops/features.h"

namespace flow::cpu::fast {
namespace {

/// `inverses`, 1 / rms of each row, may be null.
FLOW_VECTORISED void rms_normalise_rows(const float* x, int64_t rows, int64_t n, double epsilon,
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
FLOW_VECTORISED void rms_differentiate_rows(const float* dy, const float* x, int64_t rows,
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
      rms_normalise_rows(input<float>(b, 0) + at, end - first, r.features, epsilon,
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

std::span<const KernelEntry> rms_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"rms_normalize", prepare_rms_normalize},
      {"rms_normalize_grad", prepare_rms_normalize_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
