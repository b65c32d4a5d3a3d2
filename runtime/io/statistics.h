// Moments and extremes of values.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "runtime/base/array.h"
#include "runtime/plan/model/condition.h"

namespace flow::io {

/// Of the finite elements. Without any, all but `not_finite` are NaN.
struct Statistics {
  int64_t not_finite = 0;
  double zeros = std::numeric_limits<double>::quiet_NaN();  // as a share
  double mean = std::numeric_limits<double>::quiet_NaN();
  double std = mean, min = mean, max = mean, norm = mean;

  plan::StatisticValues values(
      double gradient_norm = std::numeric_limits<double>::quiet_NaN()) const {
    return {mean, std, min, max, zeros, static_cast<double>(not_finite), norm, gradient_norm};
  }
};

/// Of all elements of the parts of one value. The standard deviation is divided by their number,
/// and computed in a second pass. Allocates nothing.
Statistics statistics_of(std::span<const ArrayView> parts);
inline Statistics statistics_of(const ArrayView& value) { return statistics_of({&value, 1}); }

}  // namespace flow::io
