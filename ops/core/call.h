// A call of an op as its shape function sees it: it provides operands and attributes, and collects
// results or refusals.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/attributes.h"
#include "ops/core/limits.h"
#include "runtime/base/array.h"

namespace flow::ops {

/// The reason why an op refuses its operands or attributes.
enum class Reason {
  kBadAttribute,
  kDTypeMismatch,
  kMissingAttribute,
  kOperandCount,
  kOutOfRange,
  kRankMismatch,
  kShapeMismatch,
  kTensorTooLarge,
  kWindow
};

/// One refusal. The text starts in lower case and has no full stop; hints are imperatives.
struct Refusal {
  Reason reason;
  std::string text;
  std::optional<size_t> operand = {};  // the refused operand, if any
  std::string_view attribute = {};     // the refused attribute; with neither, the call is refused
  std::vector<std::string> hints = {};

  /// Adds a hint, unless it is empty.
  void with_hint(std::string hint);
};

/// The type of an operand. It borrows the shape.
struct Operand {
  DType dtype;
  const Shape& shape;
  int batch_axis = kNoBatch;
};

/// The type of a result.
struct Result {
  DType dtype;
  Shape shape;
  int batch_axis = kNoBatch;
  Combine combine = Combine::kNone;  // how shards combine if the batch is reduced
};

/// The settings of a job that apply to all its calls.
struct JobTypes {
  DType compute = DType::kFloat32;          // the float dtype of variables and results
  std::optional<DType> low_precision = {};  // the 16-bit dtype of products in a mixed-precision job
  int64_t batch = 0;                        // number of rows in a batch, or 0 without a batch
  /// The number of shards. Each shard normalizes its own rows, which then remain rows of the batch.
  int64_t shards = 1;
};

class Call {
 public:
  /// Borrows the attributes and the operands' shapes.
  Call(std::vector<Operand> operands, const Attributes& attributes, const JobTypes& job)
      : operands_(std::move(operands)), attributes_(attributes), job_(job) {}

  size_t operands() const { return operands_.size(); }
  const Operand& operand(size_t i) const { return operands_[i]; }
  const Shape& shape(size_t i) const { return operands_[i].shape; }
  DType dtype(size_t i) const { return operands_[i].dtype; }

  const Attributes& attributes() const { return attributes_; }
  const Attribute& attribute(std::string_view name) const;
  template <typename T>
  const T& attribute(std::string_view name) const {
    return attributes_.get<T>(name);
  }
  const std::vector<int64_t>& integers(std::string_view name) const {
    return attribute<std::vector<int64_t>>(name);
  }

  const JobTypes& job() const { return job_; }
  /// The float dtype that the job computes in.
  DType compute_dtype() const { return job_.compute; }

  // Each function reports a refusal and returns it, so that the caller can add a hint.
  Refusal& bad_operand(size_t i, Reason reason, std::string text);
  Refusal& bad_attribute(std::string_view name, Reason reason, std::string text);
  Refusal& bad_call(Reason reason, std::string text);
  bool failed() const { return !refusals_.empty(); }
  const std::vector<Refusal>& refusals() const { return refusals_; }

  /// Returns true if two operands have the same dtype; otherwise reports them.
  bool same_dtype(size_t first = 0, size_t second = 1);
  /// Returns true if the operands first, first + 1, ... below `end` have that shape; otherwise
  /// reports the first that differs.
  bool have_shape(size_t first, size_t end, const Shape& expected);

  /// Adds the next result. Reports a shape that has too many axes or too many elements to count.
  /// `combine` says how shards combine the result; it applies only if the batch is reduced.
  void result(DType dtype, Shape shape, int batch_axis, Combine combine = Combine::kNone);
  const std::vector<Result>& results() const { return results_; }

 private:
  std::vector<Operand> operands_;
  const Attributes& attributes_;
  JobTypes job_;
  std::vector<Refusal> refusals_;
  std::vector<Result> results_;
};

/// The shape function of ops whose result has operand 0's dtype, shape and batch axis.
void infer_like_operand(Call& call);

}  // namespace flow::ops
