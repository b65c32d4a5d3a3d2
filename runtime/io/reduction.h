// Reducing all elements of some arrays to one number, in float64.
#pragma once

#include <cstdint>

#include "runtime/base/array.h"
#include "runtime/plan/plan.h"

namespace flow::io {

/// Sums, means, norms and extremes over all that was added. NaN wins over every number. Of
/// nothing: mean, min and max are NaN, sum and norm 0.
class Reduction {
 public:
  /// REQUIRES: kind is not kNone.
  Reduction(plan::Reduce kind, DType dtype);
  void add(const ArrayView& array);
  /// The scalar times `scale`, in the dtype that NumPy would give it: the arrays' own, but int64
  /// for sums of integers and bools and float64 for what need not be whole.
  Array result(double scale) const;
  void clear();

 private:
  double value() const;
  plan::Reduce kind_;
  DType dtype_;
  int64_t count_ = 0;
  // Of integers, exactly; the sum modulo 2^64.
  uint64_t whole_sum_ = 0;
  int64_t whole_least_ = 0, whole_most_ = 0;
  // A sum is sum_ + lost_: what rounding took away is kept (Neumaier), so that a mean over a whole
  // run is as good as one over a step.
  double sum_ = 0, lost_ = 0, least_ = 0, most_ = 0;
};

/// A scalar array of this dtype, the value rounded to it. REQUIRES: it has such a value.
Array scalar_array(DType dtype, double value);

/// Each element times `factor`, rounded once; integers and bools become float64.
Array scaled(const ArrayView& array, double factor);

}  // namespace flow::io
