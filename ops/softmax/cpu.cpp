// softmax and log_softmax along an axis, and their gradients. What rows beside each other are
// summed up to is all in double.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ops/softmax/cpu_row.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/rows.h"

namespace flow::cpu::fast {
namespace {

/// The sum of dy y.
FLOW_VECTORISED double sum_of_products(const float* dy, const float* y, int64_t n) {
  double sum = 0;
  add_terms(n, sum, [=](int64_t i) { return dy[i] * y[i]; });
  return sum;
}

FLOW_VECTORISED double sum_in_blocks(const float* dy, int64_t n) {
  double sum = 0;
  add_terms(n, sum, [=](int64_t i) { return dy[i]; });
  return sum;
}

/// dx = y (dy - sum(dy y))
FLOW_VECTORISED void softmax_grad_with(const float* dy, const float* y, float sum, float* dx,
                                       int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - sum);
}

/// dx = dy - e^y sum(dy)
FLOW_VECTORISED void log_softmax_grad_with(const float* dy, const float* y, float sum, float* dx,
                                           int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - math::exp_of_nonpositive(y[i]) * sum;
}

/// make(i, at) for each element: of row i, at that place.
template <typename Make>
[[gnu::always_inline]] inline void for_rows_beside(const RowsBeside& rows, Make make) {
  for (int64_t k = 0; k < rows.n; ++k) {
#pragma omp simd
    for (int64_t i = 0; i < rows.count; ++i) make(i, k * rows.apart + i);
  }
}

/// A number for each row.
template <typename T>
using OfRows = std::array<T, kMostBeside>;

[[gnu::always_inline]] inline void find_largest(const float* x, const RowsBeside& rows,
                                                float* largest) {
  std::fill_n(largest, rows.count, -std::numeric_limits<float>::infinity());
  for_rows_beside(
      rows, [=](int64_t i, int64_t at) { largest[i] = x[at] > largest[i] ? x[at] : largest[i]; });
}

FLOW_VECTORISED void softmax_beside(const float* x, float* y, const RowsBeside& rows) {
  OfRows<float> largest, factors;
  OfRows<double> sums{};
  find_largest(x, rows, largest.data());
  for_rows_beside(rows, [&](int64_t i, int64_t at) {
    y[at] = math::exp_of_nonpositive(x[at] - largest[i]);
    sums[i] += static_cast<double>(y[at]);
  });
  for (int64_t i = 0; i < rows.count; ++i) factors[i] = static_cast<float>(1.0 / sums[i]);
  for_rows_beside(rows, [&](int64_t i, int64_t at) { y[at] *= factors[i]; });
}

FLOW_VECTORISED void log_softmax_beside(const float* x, float* y, const RowsBeside& rows) {
  OfRows<float> largest, log_sums;
  OfRows<double> sums{};
  find_largest(x, rows, largest.data());
  for_rows_beside(rows, [&](int64_t i, int64_t at) {
    sums[i] += static_cast<double>(math::exp_of_nonpositive(x[at] - largest[i]));
  });
  for (int64_t i = 0; i < rows.count; ++i) log_sums[i] = static_cast<float>(std::log(sums[i]));
  for_rows_beside(rows, [&](int64_t i, int64_t at) { y[at] = (x[at] - largest[i]) - log_sums[i]; });
}

FLOW_VECTORISED void softmax_grad_beside(const float* dy, const float* y, float* dx,
                                         const RowsBeside& rows) {
  OfRows<double> sums{};
  for_rows_beside(rows,
                  [&](int64_t i, int64_t at) { sums[i] += static_cast<double>(dy[at] * y[at]); });
  for_rows_beside(rows, [&](int64_t i, int64_t at) {
    dx[at] = y[at] * (dy[at] - static_cast<float>(sums[i]));
  });
}

FLOW_VECTORISED void log_softmax_grad_beside(const float* dy, const float* y, float* dx,
                                             const RowsBeside& rows) {
  OfRows<double> sums{};
  for_rows_beside(rows, [&](int64_t i, int64_t at) { sums[i] += static_cast<double>(dy[at]); });
  for_rows_beside(rows, [&](int64_t i, int64_t at) {
    dx[at] = dy[at] - math::exp_of_nonpositive(y[at]) * static_cast<float>(sums[i]);
  });
}

Kernel prepare_softmax(const Request& request) {
  return rows_kernel(
      request, axis_of(request),
      [](const float* x, const float*, float* y, int64_t n) { softmax_row(x, y, n); },
      [](const float* x, const float*, float* y, const RowsBeside& rows) {
        softmax_beside(x, y, rows);
      });
}

Kernel prepare_softmax_grad(const Request& request) {
  return rows_kernel(
      request, axis_of(request),
      [](const float* dy, const float* y, float* dx, int64_t n) {
        softmax_grad_with(dy, y, static_cast<float>(sum_of_products(dy, y, n)), dx, n);
      },
      softmax_grad_beside);
}

Kernel prepare_log_softmax(const Request& request) {
  return rows_kernel(
      request, axis_of(request),
      [](const float* x, const float*, float* y, int64_t n) { log_softmax_row(x, y, n); },
      [](const float* x, const float*, float* y, const RowsBeside& rows) {
        log_softmax_beside(x, y, rows);
      });
}

Kernel prepare_log_softmax_grad(const Request& request) {
  return rows_kernel(
      request, axis_of(request),
      [](const float* dy, const float* y, float* dx, int64_t n) {
        log_softmax_grad_with(dy, y, static_cast<float>(sum_in_blocks(dy, n)), dx, n);
      },
      log_softmax_grad_beside);
}

}  // namespace

std::span<const KernelEntry> softmax() {
  static constexpr KernelEntry kKernels[] = {
      {"softmax", prepare_softmax},
      {"softmax_grad", prepare_softmax_grad},
      {"log_softmax", prepare_log_softmax},
      {"log_softmax_grad", prepare_log_softmax_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
