// What must hold of a step's operands and attributes, primitive by primitive: all that a kernel
// relies on, so that a plan from outside cannot make one read or write out of bounds.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/plan.h"

namespace flow::plan {

/// An op with its operands, as a signature sees it. A failed requirement throws RequestError.
class Call {
 public:
  using Fail = std::function<void(const std::string&)>;
  Call(std::vector<const Tensor*> inputs, std::vector<const Tensor*> outputs,
       const Attributes& attributes, const Fail& fail)
      : inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        attributes_(attributes),
        fail_(fail) {}

  void require(bool holds, std::string_view what) const;
  /// Operand counts, with every one there but outputs from `optional_from` on.
  void arity(size_t inputs, size_t outputs, size_t optional_from = 1) const;
  const Tensor& in(size_t i) const { return *inputs_[i]; }
  const Shape& shape(size_t i) const { return in(i).shape; }
  bool has_out(size_t i) const { return outputs_[i] != nullptr; }

  /// Output i, if it is there, has this dtype and shape.
  void makes(size_t i, DType dtype, const Shape& shape) const;
  /// Inputs [first, last) are of one float dtype.
  void floats(size_t first, size_t last) const;

  int64_t integer(std::string_view name, int64_t low, int64_t high) const;
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  DType dtype(std::string_view name) const;
  /// A list of `count` integers (any number where negative), each in [low, high].
  std::vector<int64_t> integers(std::string_view name, int count, int64_t low, int64_t high) const;
  Shape extents(std::string_view name) const;
  void text(std::string_view name) const;

 private:
  template <typename T>
  const T& attribute(std::string_view name) const;
  std::vector<const Tensor*> inputs_, outputs_;
  const Attributes& attributes_;
  const Fail& fail_;
};

/// One primitive. `post_operands`: how many operands besides the running value it takes as a post;
/// negative: it is none.
struct Signature {
  std::string_view op;
  void (*check)(const Call&);
  int post_operands = -1;
  /// Which input an output takes over in place by order: variables of updates. Negative: none.
  int updates_from = -1;
};

/// The signature of a primitive, or null.
const Signature* find_signature(std::string_view op);

}  // namespace flow::plan
