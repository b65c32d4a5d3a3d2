// A call of an op as its shape function sees it: operands and attributes in, results or refusals
// out.
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

/// Why an op refuses its operands or attributes.
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

/// One refusal. The text is lower case without a full stop; hints are imperatives.
struct Refusal {
  Reason reason;
  std::string text;
  std::optional<size_t> operand = {};  // of an operand, ...
  std::string_view attribute = {};     // ... or an attribute, or else of the call
  std::vector<std::string> hints = {};

  /// An empty hint adds nothing.
  void with_hint(std::string hint);
};

/// An operand's type. Borrows the shape.
struct Operand {
  DType dtype;
  const Shape& shape;
  int batch_axis = kNoBatch;
};

/// A result's type.
struct Result {
  DType dtype;
  Shape shape;
  int batch_axis = kNoBatch;
  Combine combine = Combine::kNone;  // where the batch is reduced
};

/// What a job says of all its calls.
struct JobTypes {
  DType compute = DType::kFloat32;          // the float dtype of variables and results
  std::optional<DType> low_precision = {};  // the 16-bit one that products read in a mixed job
  int64_t batch = 0;                        // rows of the batch in the job's inputs; 0: no batch
  /// Each normalizes its own rows, which then stay rows of the batch.
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

  // Each reports a refusal, to which a hint may be added at once.
  Refusal& bad_operand(size_t i, Reason reason, std::string text);
  Refusal& bad_attribute(std::string_view name, Reason reason, std::string text);
  Refusal& bad_call(Reason reason, std::string text);
  bool failed() const { return !refusals_.empty(); }
  const std::vector<Refusal>& refusals() const { return refusals_; }

  /// Whether two operands have one dtype; reports them if not.
  bool same_dtype(size_t first = 0, size_t second = 1);
  /// Whether operands first, first + 1, ... below `end` have that shape; reports the first that
  /// does not.
  bool have_shape(size_t first, size_t end, const Shape& expected);

  /// The next result. Reports a shape that is too large to count, or has too many axes.
  /// `combine`: where the batch is reduced, whatever the shapes.
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
