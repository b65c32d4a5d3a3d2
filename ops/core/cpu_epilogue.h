// What is done to rows of a product on their way out: bias, relu (which keeps NaN), rounding.
#pragma once

#include <cstdint>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

struct Epilogue {
  bool bias = false, relu = false;
  bool low_precision = false;  // rounded to bfloat16
  size_t fused = 0;            // epilogue ops that it stands for

  /// Epilogue ops of the step from the first on. `axis`: along which a bias may lie.
  static Epilogue of(const Request& request, int axis);

  bool does_nothing() const { return !bias && !relu && !low_precision; }
  /// One row of n, from `in` to `out`, which may be `in` where nothing is rounded; where it is,
  /// `in` is used up.
  void finish(float* in, const float* bias_row, std::byte* out, int64_t n) const;
};

}  // namespace flow::cpu
