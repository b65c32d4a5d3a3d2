// How the error of an array is distributed: over its elements, and along its axes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/array.h"

namespace flow::compare {

struct ErrorProfile {
  /// Of |out - golden| between finite values, interpolated as NumPy's `percentile` does.
  double median = 0, percentile_90 = 0, percentile_99 = 0;
  /// Of each axis the index with most of the sum of squared errors, and its share of it.
  struct WorstIndex {
    int axis = 0;
    int64_t index = 0;
    double share = 0;
  };
  std::vector<WorstIndex> axes;  // those with two indices or more
};

/// Nothing where no two finite values differ, and of arrays of more than 8 Mi elements.
/// REQUIRES: dtype and shape agree.
std::optional<ErrorProfile> profile_errors(const ArrayView& golden, const ArrayView& out);

}  // namespace flow::compare
