// What sums up the arrays that one tensor has had, up to a result: metrics, reductions of all
// elements to one number in float64, and the mean or metric for the run itself.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/io/sink.h"
#include "runtime/plan/model/plan.h"

namespace flow::io {

/// Sums up the arrays that one tensor has had, up to a result.
class Accumulator {
 public:
  virtual ~Accumulator() = default;
  virtual void add(const ArrayView& array) = 0;
  virtual bool is_empty() const = 0;
  /// The number, not rounded to any other dtype. REQUIRES: the result is one.
  virtual double value() const = 0;
  /// The result times `scale`, in the dtype that NumPy would give it.
  virtual Array result(double scale) const = 0;
  virtual void clear() = 0;
  /// What was added, to the bit: words that another one goes on from.
  virtual std::vector<uint64_t> held() const = 0;
  /// RequestError where they did not come from held().
  virtual void resume(std::span<const uint64_t> held) = 0;
};

/// Sums up for a metric of a tensor of that dtype. `add` throws RunError, which begins with `what`,
/// where a label or prediction is not a class.
std::unique_ptr<Accumulator> make_metric(const plan::Metric& metric, DType dtype, std::string what);

/// Sums up for a metric or a reduction; null where there is neither.
std::unique_ptr<Accumulator> make_sums(const std::optional<plan::Metric>& metric,
                                       plan::Reduce reduce, const SinkContext& context);

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

/// The mean of all elements that one tensor has had, or a metric of them, for the run itself.
class MeanSink : public Sink {
 public:
  explicit MeanSink(std::unique_ptr<Accumulator> sums) : sums_(std::move(sums)) {}

  void deliver(const Event& event) override { sums_->add(event.value); }
  bool absorbs(bool) const override { return true; }
  std::vector<uint64_t> held() const override {
    return sums_->is_empty() ? std::vector<uint64_t>() : sums_->held();
  }
  void resume(std::span<const uint64_t> held) override { sums_->resume(held); }

  /// The value since the last call, in float64; nothing where there was no element.
  std::optional<double> take() {
    if (sums_->is_empty()) return {};
    const double value = sums_->value();
    sums_->clear();
    return value;
  }

 private:
  std::unique_ptr<Accumulator> sums_;
};

}  // namespace flow::io
