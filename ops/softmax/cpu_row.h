// softmax and related functions of one row of floats that is contiguous in memory. Unless stated
// otherwise, short blocks are summed in float, and the sums of blocks are added in double.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "runtime/base/host_device.h"
#include "runtime/base/vector_math.h"

namespace flow::cpu {

/// y = softmax(x). y may alias x. The result is NaN if x contains NaN or if its maximum is
/// infinite.
void softmax_row(const float* x, float* y, int64_t n);

/// y = x - logsumexp(x), with the same properties.
void log_softmax_row(const float* x, float* y, int64_t n);

/// Returns ln(sum e^x), summed in double, or NaN if x contains NaN.
float logsumexp_row(const float* x, int64_t n);

/// logsumexp(x) = max + log_sum. The two are stored separately because adding them would lose small
/// differences if the maximum is large.
struct RowSum {
  float max;
  double log_sum;
};
/// prob = softmax(x). The whole sum is computed in double: in float, the small terms that small
/// losses consist of would be lost next to the largest element's 1.
RowSum softmax_and_sum(const float* x, float* prob, int64_t n);

}  // namespace flow::cpu
