// softmax and log_softmax along an axis, and their gradients.
#include "runtime/cpu/features.h"
#include "runtime/cpu/operands.h"
#include "runtime/cpu/rows.h"
#include "runtime/cpu/runs.h"
#include "runtime/cpu/softmax_row.h"

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

}  // namespace

Kernel softmax(const Request& request) {
  return rows_kernel(
      request, axis_of(request),
      [](const float* x, const float*, float* y, int64_t n) { softmax_row(x, y, n); });
}

Kernel softmax_grad(const Request& request) {
  return rows_kernel(
      request, axis_of(request), [](const float* dy, const float* y, float* dx, int64_t n) {
        softmax_grad_with(dy, y, static_cast<float>(sum_of_products(dy, y, n)), dx, n);
      });
}

Kernel log_softmax(const Request& request) {
  return rows_kernel(
      request, axis_of(request),
      [](const float* x, const float*, float* y, int64_t n) { log_softmax_row(x, y, n); });
}

Kernel log_softmax_grad(const Request& request) {
  return rows_kernel(
      request, axis_of(request), [](const float* dy, const float* y, float* dx, int64_t n) {
        log_softmax_grad_with(dy, y, static_cast<float>(sum_in_blocks(dy, n)), dx, n);
      });
}

}  // namespace flow::cpu::fast
