// What sums up the arrays that one tensor has had, up to a result.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/plan/model/plan.h"

namespace flow::io {

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

struct SinkContext;
/// Sums up for a metric or a reduction; null where there is neither.
std::unique_ptr<Accumulator> make_sums(const std::optional<plan::Metric>& metric,
                                       plan::Reduce reduce, const SinkContext& context);

}  // namespace flow::io
