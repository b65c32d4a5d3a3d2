// Rows of attention scores, compiled for what the CPU has.
#pragma once

#include <cstdint>
#include <limits>

namespace flow::cpu::fast {

/// Rows of scores are as many whole vectors.
inline constexpr int64_t kScoreLanes = 16;
/// The score of what a mask lets nothing through to.
inline constexpr float kHidden = -std::numeric_limits<float>::infinity();

/// scores[i] = -inf where the mask, whose elements are `step` apart, lets nothing through.
void hide(const bool* mask, int64_t step, float* scores, int64_t n);
/// scores[i] += the bias, whose elements are `step` apart: 0 or 1.
void add_bias(const float* bias, int64_t step, float* scores, int64_t n);
/// scores[i] = -inf where the bias is, whatever the score was.
void hide_by_bias(const float* bias, int64_t step, float* scores, int64_t n);
bool all_finite(const float* x, int64_t n);
/// x = exp(x - shift), for x <= shift or little more; returns their sum.
float exp_less(float* x, float shift, int64_t n);
float dot_rows(const float* a, const float* b, int64_t n);
float sum_row(const float* x, int64_t n);
/// dp = p * (dp - expected)
void slope_row(const float* p, float expected, float* dp, int64_t n);
/// The same as exp_less and slope_row, of weights and slopes that are 0 where the score x is -inf,
/// whatever the other operands are.
void slope_seen(float* x, float shift, float expected, float* dp, int64_t n);

}  // namespace flow::cpu::fast
