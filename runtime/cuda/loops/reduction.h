// Sums over any axes, the same bits in every run: fixed trees, in float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/reduce_plan.h"

namespace flow::cuda {

/// How sums are computed depends on shapes alone.
class Reduction {
 public:
  /// Sums over the axes of `x` that are set in `reduced`. The result has the others, in order.
  Reduction(const TensorDesc& x, const std::vector<bool>& reduced);

  int64_t terms() const { return plan_.layout.terms; }  // that go into one sum
  size_t workspace() const { return plan_.workspace(sizeof(double)); }
  /// out = factor * the sums of x, in float32 where x has 16 bits. REQUIRES: x and out do not
  /// overlap.
  Launch sum(double factor) const;

 private:
  DType dtype_;
  ReducePlan plan_;
};

}  // namespace flow::cuda
