// Accumulates the arrays that a tensor has had, up to a result: metrics, reductions of all elements
// to one number in float64, and the mean or metric that the run uses itself.
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

/// Accumulates the arrays that a tensor has had, up to a result.
class Accumulator {
 public:
  virtual ~Accumulator() = default;
  virtual void add(const ArrayView& array) = 0;
  virtual bool is_empty() const = 0;
  /// Returns the result without rounding it to another dtype. REQUIRES: the result is one number.
  virtual double value() const = 0;
  /// Returns the result times `scale`, in the dtype that NumPy would give it.
  virtual Array result(double scale) const = 0;
  virtual void clear() = 0;
  /// Returns the exact state as words, from which another Accumulator can continue.
  virtual std::vector<uint64_t> held() const = 0;
  /// Continues from the words of held(). Throws RequestError if they are invalid.
  virtual void resume(std::span<const uint64_t> held) = 0;
};

/// Creates an Accumulator for a metric of a tensor of `dtype`. Its `add` throws RunError if a label
/// or prediction is not a class; the message begins with `what`.
std::unique_ptr<Accumulator> make_metric(const plan::Metric& metric, DType dtype, std::string what);

/// Creates an Accumulator for a metric or a reduction. Returns null if neither is requested.
std::unique_ptr<Accumulator> make_sums(const std::optional<plan::Metric>& metric,
                                       plan::Reduce reduce, const SinkContext& context);

/// Computes sums, means, norms and extremes of all added elements. NaN takes precedence over every
/// number. Without elements, mean, min and max are NaN, and sum and norm are 0.
class Reduction final : public Accumulator {
 public:
  /// REQUIRES: kind is not kNone.
  Reduction(plan::Reduce kind, DType dtype);
  void add(const ArrayView& array) override;
  double value() const override;
  bool is_empty() const override { return sums_.count == 0; }
  /// Returns the scalar times `scale`, in the dtype that NumPy would give it: the dtype of the
  /// arrays, except int64 for sums of integers and bools, and float64 for results of integers that
  /// may not be whole.
  Array result(double scale) const override;
  void clear() override { sums_ = {}; }
  std::vector<uint64_t> held() const override;
  void resume(std::span<const uint64_t> held) override;

 private:
  struct Sums {
    int64_t count = 0;
    // The exact sum of integers, modulo 2^64.
    uint64_t whole = 0;
    int64_t whole_least = std::numeric_limits<int64_t>::max();
    int64_t whole_most = std::numeric_limits<int64_t>::min();
    // The sum is sum + lost. `lost` keeps what rounding removed (Neumaier), so that a mean over a
    // whole run is as accurate as a mean over a step.
    double sum = 0, lost = 0;
    double least = std::numeric_limits<double>::infinity();
    double most = -std::numeric_limits<double>::infinity();
  };

  using Words = std::array<uint64_t, sizeof(Sums) / sizeof(uint64_t)>;

  plan::Reduce kind_;
  DType dtype_;
  Sums sums_;
};

/// Returns a scalar array of this dtype with `value`, rounded to it. REQUIRES: the dtype has such a
/// value.
Array scalar_array(DType dtype, double value);

/// Returns each element times `factor`, rounded once. Integers and bools become float64.
Array scaled(const ArrayView& array, double factor);
/// Writes the same products to an array that has the dtype of the result and at least as many
/// elements.
void scale(const ArrayView& array, double factor, Array& result);

/// Accumulates the mean of all elements that a tensor has had, or a metric of them, for use by the
/// run itself.
class MeanSink : public Sink {
 public:
  explicit MeanSink(std::unique_ptr<Accumulator> sums) : sums_(std::move(sums)) {}

  void deliver(const Event& event) override { sums_->add(event.value); }
  bool absorbs(bool) const override { return true; }
  std::vector<uint64_t> held() const override {
    return sums_->is_empty() ? std::vector<uint64_t>() : sums_->held();
  }
  void resume(std::span<const uint64_t> held) override { sums_->resume(held); }

  /// Returns the value since the last call, in float64, or nothing if there was no element.
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
