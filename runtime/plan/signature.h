// What the plan check knows of each primitive (signatures.def): all that a kernel relies on, so
// that no plan makes one read or write out of bounds.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/spec.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/site.h"

namespace flow::plan {

/// Of extents, strides and places in them, which kernels count in 32 bits.
inline constexpr int64_t kMostSize = std::numeric_limits<int32_t>::max();

/// A primitive with its operands, as its shape rule sees it, and what the rule says it results in.
class Call {
 public:
  /// Borrows all of it. `number` is the job's float dtype, `narrow` the 16-bit one of its products.
  Call(const Site& site, std::vector<const Tensor*> operands, const Attributes& attributes,
       DType number, std::optional<DType> narrow = {})
      : site_(site),
        operands_(std::move(operands)),
        attributes_(attributes),
        number_(number),
        narrow_(narrow) {}

  std::span<const Tensor* const> operands() const { return operands_; }
  const Shape& shape(size_t i) const { return operands_[i]->shape; }
  DType dtype(size_t i) const { return operands_[i]->dtype; }
  DType number() const { return number_; }
  std::optional<DType> narrow() const { return narrow_; }
  const Attributes& attributes() const { return attributes_; }
  template <typename T>
  const T& attribute(std::string_view name) const {
    return attributes_.get<T>(name);
  }
  const std::vector<int64_t>& integers(std::string_view name) const {
    return attribute<std::vector<int64_t>>(name);
  }
  const Site& site() const { return site_; }
  template <typename... Args>
  void require(bool good, fmt::format_string<Args...> format, Args&&... args) const {
    site_.require(good, format, std::forward<Args>(args)...);
  }

  /// The attribute `axis`, which is one of operand 0.
  int axis() const;
  /// All operands are of one dtype.
  void require_same_dtypes() const;
  /// Operands below `end` are of one shape.
  void require_same_shapes(size_t end) const;
  /// Operands first, first + 1, ... below `end` are of that shape.
  void require_shapes(size_t first, size_t end, const Shape& expected) const;

  void result(DType dtype, Shape shape) { results_.emplace_back(dtype, std::move(shape)); }
  const std::vector<std::pair<DType, Shape>>& results() const { return results_; }

 private:
  const Site& site_;
  std::vector<const Tensor*> operands_;
  const Attributes& attributes_;
  DType number_;
  std::optional<DType> narrow_;
  std::vector<std::pair<DType, Shape>> results_;
};

/// Requires what must hold of shapes and attributes and sets the results. Operands' number and
/// dtypes and each attribute by itself have been checked.
using Rule = void (*)(Call&);

namespace rules {
#define FLOW_SIGNATURE(op, operands, results, attributes, in_place, rule) void rule(Call&);
#include "runtime/plan/signatures.def"
#undef FLOW_SIGNATURE
}  // namespace rules

/// One line of signatures.def.
struct Signature {
  struct Part {
    std::string_view name, kind;
    bool optional = false;  // `?`: may be left out, as the last of the operands
    bool variadic = false;  // `*`: one or more, as the last of the operands
  };
  std::string_view op;
  std::vector<Part> operands, attributes;
  std::vector<std::string_view> results;  // with `?` or `*`
  std::string_view in_place;              // the operands whose memory result 0 may take over
  Rule rule = nullptr;
  const ops::OpSpec* spec = nullptr;  // whose record this is, where `rule` is null

  /// What the list says of operand i. REQUIRES: the call has that many.
  const Part& operand(size_t i) const { return operands[std::min(i, operands.size() - 1)]; }
  /// May a plan leave result i out, because nobody reads it?
  bool may_be_absent(size_t i) const;
  /// The operand, a variable, onto which result i is written, where there is one.
  std::optional<size_t> updated_operand(size_t i) const;
  /// May result 0 lie where operand i lies?
  bool may_overwrite(size_t i) const;
};

/// Those of records in ops/, then all of signatures.def.
std::span<const Signature> all_signatures();
/// The signature of `op`, or null.
const Signature* find_signature(std::string_view op);

/// Checks a primitive against its signature and returns its results' dtypes and shapes.
std::vector<std::pair<DType, Shape>> check_call(const Signature& signature, Call call);

}  // namespace flow::plan
