// Reducing all elements of some arrays to one number, in float64.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/io/accumulator.h"
#include "runtime/plan/model/plan.h"

namespace flow::io {

/// Sums, means, norms and extremes over all that was added. NaN wins over every number. Of
/// nothing: mean, min and max are NaN, sum and norm 0.
class Reduction final : public Accumulator {
 public:
  /// REQUIRES: kind is not kNone.
  Reduction(plan::Reduce kind, DType dtype);
  void add(const ArrayView& array) override;
  double value() const override;
  bool is_empty() const override { return sums_.count == 0; }
  /// The scalar times `scale`, in the dtype that NumPy would give it: the arrays' own, but int64
  /// for sums of integers and bools and float64 for what need not be whole.
  Array result(double scale) const override;
  void clear() override { sums_ = {}; }
  std::vector<uint64_t> held() const override;
  void resume(std::span<const uint64_t> held) override;

 private:
  struct Sums {
    int64_t count = 0;
    // Of integers, exactly; the sum modulo 2^64.
    uint64_t whole = 0;
    int64_t whole_least = std::numeric_limits<int64_t>::max();
    int64_t whole_most = std::numeric_limits<int64_t>::min();
    // A sum is sum + lost: what rounding took away is kept (Neumaier), so that a mean over a whole
    // run is as good as one over a step.
    double sum = 0, lost = 0;
    double least = std::numeric_limits<double>::infinity();
    double most = -std::numeric_limits<double>::infinity();
  };

  using Words = std::array<uint64_t, sizeof(Sums) / sizeof(uint64_t)>;

  plan::Reduce kind_;
  DType dtype_;
  Sums sums_;
};

/// A scalar array of this dtype, the value rounded to it. REQUIRES: it has such a value.
Array scalar_array(DType dtype, double value);

/// Each element times `factor`, rounded once; integers and bools become float64.
Array scaled(const ArrayView& array, double factor);
/// The same into an array of the shape and the dtype of the result, which may be longer.
void scale(const ArrayView& array, double factor, Array& result);

}  // namespace flow::io
