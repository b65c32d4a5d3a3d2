// The extents of an attention call, the offsets of its mask and bias, and operations on rows of
// scores: masks, exponentials and sums.
#include <algorithm>
#include <utility>

#include "ops/attention/cpu.h"
#include "runtime/base/vector_math.h"
#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/features.h"

namespace flow::cpu {

Attention::Attention(const Request& request, const ops::AttentionOperands& at)
    : AttentionExtents(request, at) {
  const Shape& query = request.inputs[at.query].shape;
  if (at.mask) mask.emplace(*at.mask, request.inputs[*at.mask].shape, query, keys);
  if (at.bias) bias.emplace(*at.bias, request.inputs[*at.bias].shape, query, keys);
  if (!at.lengths) return;
  lengths_operand_ = *at.lengths;
  lengths_.emplace(request, request.inputs[*at.lengths], keys + 1);
}

ScoreOperand::ScoreOperand(size_t at, const Shape& shape, const Shape& query, int64_t keys)
    : ScoreSteps(shape, query, keys), operand(at), elements(shape.elements()), offsets{0} {
  for (int axis = 0; axis < query.rank() - 2; ++axis) {
    std::vector<int64_t> inner;
    for (const int64_t offset : offsets)
      for (int64_t i = 0; i < query[axis]; ++i)
        inner.push_back(offset + i * along(shape, query, axis));
    offsets = std::move(inner);
  }
}

}  // namespace flow::cpu

namespace flow::cpu::fast {
namespace {

FLOW_VECTORIZED void hide_each(const uint8_t* mask, float* scores, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) scores[i] = mask[i] ? scores[i] : kHidden;
}

}  // namespace

void hide(const bool* mask, int64_t step, float* scores, int64_t n) {
  if (step == 1)
    hide_each(reinterpret_cast<const uint8_t*>(mask), scores, n);
  else if (!*mask)
    std::fill_n(scores, n, kHidden);
}

FLOW_VECTORIZED void add_bias(const float* bias, int64_t step, float* scores, int64_t n) {
  if (step == 0) {
    const float all = *bias;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) scores[i] += all;
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) scores[i] += bias[i];
}

void hide_by_bias(const float* bias, int64_t step, float* scores, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (bias[i * step] == kHidden) scores[i] = kHidden;
}

FLOW_VECTORIZED bool all_finite(const float* x, int64_t n) {
  return sum_of_terms<float>(n, [=](int64_t i) { return x[i] * 0.0f; }) == 0.0f;
}

FLOW_VECTORIZED float exp_less(float* x, float shift, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] = math::exp_of_nonpositive(x[i] - shift);
  return sum_of_terms<float>(n, [=](int64_t i) { return x[i]; });
}

FLOW_VECTORIZED float dot_rows(const float* a, const float* b, int64_t n) {
  return sum_of_terms<float>(n, [=](int64_t i) { return a[i] * b[i]; });
}

FLOW_VECTORIZED float sum_row(const float* x, int64_t n) {
  return sum_of_terms<float>(n, [=](int64_t i) { return x[i]; });
}

FLOW_VECTORIZED void slope_row(const float* p, float expected, float* dp, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dp[i] = p[i] * (dp[i] - expected);
}

FLOW_VECTORIZED void slope_seen(float* x, float shift, float expected, float* dp, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    x[i] = x[i] == kHidden ? 0.0f : math::exp_of_nonpositive(x[i] - shift);
    dp[i] = x[i] == 0.0f ? 0.0f : x[i] * (dp[i] - expected);
  }
}

}  // namespace flow::cpu::fast
