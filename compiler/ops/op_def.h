// The table of ops: everything the compiler knows of an op stands in one OpDef.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/ir/graph.h"

namespace flow {

namespace ir {
class Builder;
}

/// Sets of dtypes that an operand may have.
enum class Accepts { kAny, kFloat, kInteger, kBool, kNumber /* float or integer */ };

struct OperandDef {
  std::string_view name;  // how the file gives it: "labels"; the main one is "in"
  std::string_view doc;
  Accepts accepts = Accepts::kFloat;
  bool variadic = false;  // a list of one or more
  bool optional = false;
};

/// How an attribute's text is read.
enum class AttributeType {
  kBool,
  kInteger,
  kNumber,
  kText /* one of `choices` */,
  kIntegers /* a list, or one */,
  kDType,
  kPadding,
  kInitializer,
  kActivation
};

struct AttributeDef {
  std::string_view name;
  AttributeType type;
  /// As the file would write it; empty: required. Lists "[]" and "all" mean the empty list.
  std::string_view fallback;
  std::string_view doc;
  std::vector<std::string_view> choices = {};
  std::optional<double> min = {}, max = {};  // both included, of each number
};

/// Attributes as the user wrote them with their places, for messages.
struct AttributeSpans {
  std::vector<std::pair<std::string, Span>> spans;
  Span op;  // of the `op:` value
  std::vector<Span> operands;
  /// Where the attribute stands, or `op:` where it is defaulted.
  Span of(std::string_view attribute) const;
  /// Where operand i stands, or `op:`.
  Span of_operand(size_t i) const;
};

/// What a shape rule sees, and where it says what the results are or why there are none.
class Inference {
 public:
  Inference(const ir::Graph& graph, const OpDef& op, std::string_view name,
            std::span<const ir::ValueId> operands, const ir::Attributes& attributes,
            const AttributeSpans& spans, Diags& diags);

  size_t operands() const { return operands_.size(); }
  const ir::Value& operand(size_t i) const { return graph_[operands_[i]]; }
  const Shape& shape(size_t i) const { return operand(i).shape; }
  template <typename T>
  const T& attribute(std::string_view name) const {
    return attributes_.get<T>(name);
  }
  bool has(std::string_view name) const { return attributes_.has(name); }

  /// Results, first to last.
  void result(DType dtype, Shape shape, int rows);
  /// Errors at an operand, an attribute or the op; the message is prefixed with the entry's name
  /// and followed by the chain of shapes of the operand (operand 0 for attributes).
  Diag& bad_operand(size_t i, Diagnosis diagnosis, std::string message);
  Diag& bad_attribute(std::string_view name, Diagnosis diagnosis, std::string message);
  Diag& bad_op(Diagnosis diagnosis, std::string message);

  struct Result {
    DType dtype;
    Shape shape;
    int rows;
  };
  const std::vector<Result>& results() const { return results_; }
  bool failed() const { return failed_; }

 private:
  const ir::Graph& graph_;
  const OpDef& op_;
  std::string_view name_;
  std::span<const ir::ValueId> operands_;
  const ir::Attributes& attributes_;
  const AttributeSpans& spans_;
  Diags& diags_;
  std::vector<Result> results_;
  bool failed_ = false;
};

/// What a gradient rule works with: the forward node and the gradients of its results.
struct GradientContext {
  ir::Builder& builder;
  ir::Node node;                              // a copy: the graph grows meanwhile
  std::vector<ir::ValueId> result_gradients;  // invalid: the loss does not depend on that result

  ir::ValueId operand(size_t i) const { return node.operands[i]; }
  ir::ValueId result(size_t i) const { return node.results[i]; }
  ir::ValueId gradient(size_t i = 0) const { return result_gradients[i]; }
  /// Is the gradient of operand i wanted? (Inputs' are not, unless watched.)
  std::vector<bool> wanted;
};

/// What a layer's expansion works with: its operands and attributes, and the builder, in whose
/// scope the primitives and variables are named.
struct LayerContext {
  ir::Builder& builder;
  std::string name;  // of the entry: "lenet/conv1"
  std::vector<ir::ValueId> operands;
  const ir::Attributes& attributes;
  /// As written, by attribute; absent ones are the fallback. Types that need fans are still
  /// `variance_scaling`, `glorot_uniform`, `kaiming`, ...; each word that such a type takes (mode,
  /// distribution, nonlinearity), default or not, is a key of `values` with the value 1: "fan_out".
  const std::vector<std::pair<std::string, plan::Initializer>>& initializers;
  const AttributeSpans& spans;
  bool train = false;
  bool trainable = true;
};

using InferRule = void (*)(Inference&);
/// The gradient of each operand (invalid where there is none). Sums over broadcasting are the
/// rule's own.
using GradientRule = std::vector<ir::ValueId> (*)(GradientContext&);
/// The value that the entry stands for; invalid after an error, which has been reported.
using ExpandRule = ir::ValueId (*)(LayerContext&);

/// An op: a primitive (infer, gradient) or a layer (expand). A rule takes what it needs as an
/// argument and returns what it makes.
struct OpDef {
  std::string_view name;
  std::string_view doc;      // one sentence
  std::string_view formula;  // "y = max(x, 0)"
  std::vector<OperandDef> operands;
  std::vector<AttributeDef> attributes = {};
  std::vector<std::string_view> results = {"out"};
  InferRule infer = nullptr;
  GradientRule gradient = nullptr;
  ExpandRule expand = nullptr;
  bool elementwise = false;  // the first result has operand 0's shape, element i from element i:
                             // may be fused as a post, may run in place
  bool internal = false;     // made by passes; not to be written in a job file
  /// Small calls for the property tests: "matmul(f32[3,4], f32[4,2]) transpose_b=false".
  std::vector<std::string_view> examples = {};
};

/// All ops, in the order of ops.def.
std::span<const OpDef* const> all_ops();
/// The op of that name, or null.
const OpDef* find_op(std::string_view name);

}  // namespace flow
