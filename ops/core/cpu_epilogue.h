// The operations on the rows of a product before they are stored: adding a bias, relu (which keeps
// NaN) and rounding.
#pragma once

#include <cstdint>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

struct Epilogue {
  bool bias = false, relu = false;
  bool low_precision = false;  // rounds to bfloat16
  size_t fused = 0;            // number of epilogue ops of the step that this struct covers

  /// Collects the leading epilogue ops of the step that `finish` can compute. `axis` is the only
  /// axis along which a bias may run.
  static Epilogue of(const Request& request, int axis);

  bool does_nothing() const { return !bias && !relu && !low_precision; }
  /// Writes one row of n elements from `in` to `out`. The two may be the same row unless the result
  /// is rounded; rounding overwrites `in`.
  void finish(float* in, const float* bias_row, std::byte* out, int64_t n) const;
};

}  // namespace flow::cpu
