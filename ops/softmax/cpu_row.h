// softmax and its kin of one row of floats in memory. Sums are of short blocks in float, whose sums
// are added in double.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "runtime/base/host_device.h"
#include "runtime/base/vector_math.h"

namespace flow::cpu {

/// y = softmax(x), which may lie where x does. NaN where x has one, or is infinite.
void softmax_row(const float* x, float* y, int64_t n);

/// y = x - logsumexp(x), likewise.
void log_softmax_row(const float* x, float* y, int64_t n);

/// ln(sum e^x), summed in double. NaN where x has one.
float logsumexp_row(const float* x, int64_t n);

/// logsumexp(x) = max + log_sum, kept apart: next to a large maximum small differences are lost.
struct RowSum {
  float max;
  double log_sum;
};
/// prob = softmax(x), with the sum all in double: beside the largest element's 1 a float's would
/// lose the others, which small losses consist of.
RowSum softmax_and_sum(const float* x, float* prob, int64_t n);

}  // namespace flow::cpu
