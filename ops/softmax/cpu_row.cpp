// softmax and its kin of one row of floats in memory.
#include "ops/softmax/cpu_row.h"

#include <cmath>

#include "runtime/base/ceil_div.h"
#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu {
namespace {

FLOW_VECTORISED void subtract_all(const float* x, float max, float log_sum, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - max) - log_sum;
}

/// y = exp(x - shift), and the sum of that.
FLOW_VECTORISED double exp_and_sum(const float* x, float shift, float* y, int64_t n) {
  double total = 0;
  for (int64_t first = 0; first < n; first += kSumBlock) {
    const int64_t block = std::min(n - first, kSumBlock);
    const float* from = x + first;
    float* to = y + first;
#pragma omp simd
    for (int64_t i = 0; i < block; ++i) to[i] = math::exp_of_nonpositive(from[i] - shift);
    total += static_cast<double>(sum_of_terms<float>(block, [=](int64_t i) { return to[i]; }));
  }
  return total;
}

/// The same, all in double.
FLOW_VECTORISED double exp_and_wide_sum(const float* x, float shift, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp_of_nonpositive(x[i] - shift);
  return sum_of_terms<double>(n, [=](int64_t i) { return static_cast<double>(y[i]); });
}

/// y = softmax(x); the maximum, and the sum of e^(x - max) that `exp_and_add` found.
struct MaxAndSum {
  float max;
  double sum;
};
using ExpAndAdd = double (*)(const float* x, float shift, float* y, int64_t n);

MaxAndSum softmax_with(ExpAndAdd exp_and_add, const float* x, float* y, int64_t n) {
  const float max = largest_of(x, n);
  const double sum = exp_and_add(x, max, y, n);
  scale_to(y, static_cast<float>(1.0 / sum), y, n);
  return {max, sum};
}

/// run(x, y, n), but fewer elements than kShort in whole vectors, filled up with what exp makes 0
/// of: what is left over of a loop's vectors runs element by element, and of ten that is all.
template <typename Run>
auto in_whole_vectors(const float* x, float* y, int64_t n, Run run) {
  constexpr int64_t kShort = 64, kLanes = 16;
  if (n >= kShort) return run(x, y, n);
  float padded[kShort];
  const int64_t width = round_up(n, kLanes);
  std::fill_n(padded, kShort, -std::numeric_limits<float>::infinity());
  std::copy_n(x, n, padded);
  const auto result = run(padded, padded, width);
  std::copy_n(padded, n, y);
  return result;
}

/// The maximum and the sum again.
MaxAndSum log_softmax_with(const float* x, float* y, int64_t n) {
  const float max = largest_of(x, n);
  // Block by block, so that y may lie where x does.
  double sum = 0;
  float exps[kSumBlock];
  for (int64_t first = 0; first < n; first += kSumBlock)
    sum += exp_and_sum(x + first, max, exps, std::min(kSumBlock, n - first));
  subtract_all(x, max, static_cast<float>(std::log(sum)), y, n);
  return {max, sum};
}

/// No difference is taken from an infinite maximum.
double log_of_infinite_sum(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(math::exp(x[i]));
  return std::log(sum);
}

}  // namespace

void softmax_row(const float* x, float* y, int64_t n) {
  in_whole_vectors(x, y, n, [](const float* from, float* to, int64_t width) {
    return softmax_with(exp_and_sum, from, to, width);
  });
}

RowSum softmax_and_sum(const float* x, float* prob, int64_t n) {
  const MaxAndSum row =
      in_whole_vectors(x, prob, n, [](const float* from, float* to, int64_t width) {
        return softmax_with(exp_and_wide_sum, from, to, width);
      });
  return {row.max, std::log(row.sum)};
}

void log_softmax_row(const float* x, float* y, int64_t n) {
  in_whole_vectors(x, y, n, log_softmax_with);
}

float logsumexp_row(const float* x, int64_t n) {
  float exps[kSumBlock];
  const double result = in_whole_vectors(x, exps, n, [&](const float* from, float*, int64_t width) {
    const float max = largest_of(from, width);
    if (!std::isfinite(max)) return log_of_infinite_sum(x, n);
    double sum = 0;
    for (int64_t first = 0; first < width; first += kSumBlock)
      sum += exp_and_wide_sum(from + first, max, exps, std::min(kSumBlock, width - first));
    return std::log(sum) + static_cast<double>(max);
  });
  return static_cast<float>(result);
}

}  // namespace flow::cpu
