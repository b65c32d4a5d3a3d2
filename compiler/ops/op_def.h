// The table of ops: everything the compiler knows of an op stands in one OpDef.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/ir/graph.h"
#include "ops/spec.h"

namespace flow {

namespace ir {
class Builder;
}
struct Fans;

using ops::Accepts;
using ops::AttributeType;
using OperandDef = ops::OperandSpec;
using AttributeDef = ops::AttributeSpec;

/// A value as a table writes it. REQUIRES: `text` is one of that type.
ir::Attribute attribute_from(AttributeType type, std::string_view text);

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

/// A call of an op as messages see it. They are prefixed with the entry's name; those at operands
/// and attributes are followed by the chain of shapes of the operand (operand 0 for attributes).
class CallSite {
 public:
  CallSite(const ir::Graph& graph, std::string_view name, std::span<const ir::ValueId> operands,
           const AttributeSpans& spans, Diags& diags)
      : graph_(graph), name_(name), operands_(operands), spans_(spans), diags_(diags) {}

  std::string_view name() const { return name_; }
  size_t operands() const { return operands_.size(); }
  ir::ValueId id(size_t i) const { return operands_[i]; }
  const ir::Value& operand(size_t i) const { return graph_[id(i)]; }
  const Shape& shape(size_t i) const { return operand(i).shape; }

  /// Reports operands 0 and 1 if their dtypes differ; true when they agree.
  bool same_dtype();
  Diag& bad_operand(size_t i, Diagnosis diagnosis, std::string message);
  Diag& bad_attribute(std::string_view attribute, Diagnosis diagnosis, std::string message);
  Diag& bad_op(Diagnosis diagnosis, std::string message);
  bool failed() const { return failed_; }
  /// Reports a shape function's refusal.
  void report(const ops::Refusal& refusal);

 protected:
  const ir::Graph& graph() const { return graph_; }

 private:
  Diag& report(Span span, Diagnosis diagnosis, std::string message, size_t chain_of);

  const ir::Graph& graph_;
  std::string_view name_;
  std::span<const ir::ValueId> operands_;
  const AttributeSpans& spans_;
  Diags& diags_;
  bool failed_ = false;
};

/// What a shape rule sees, and where it says what the results are or why there are none.
class Inference : public CallSite {
 public:
  Inference(const ir::Graph& graph, std::string_view name, std::span<const ir::ValueId> operands,
            ir::Attributes& attributes, const AttributeSpans& spans, Diags& diags)
      : CallSite(graph, name, operands, spans, diags), attributes_(attributes) {}

  template <typename T>
  const T& attribute(std::string_view name) const {
    return attributes_.get<T>(name);
  }
  const ir::Attributes& attributes() const { return attributes_; }
  const ir::Attribute& attribute(std::string_view name) const { return *attributes_.find(name); }
  bool has(std::string_view name) const { return attributes_.has(name); }
  /// Replaces an attribute by its normalised form: a negative axis by the one it means, `same` by
  /// four pads. The rule, run again, must leave that as it is.
  void normalise(std::string_view name, ir::Attribute value) {
    attributes_.set(name, std::move(value));
  }
  /// The same where the primitive has another name for it than the file.
  void replace(std::string_view name, std::string_view by, ir::Attribute value);

  /// The float dtype that the job computes in.
  DType number() const { return graph().number; }
  /// Rows of the batch that the job's inputs carry, or 0 where none does.
  int64_t batch() const;

  /// Results, first to last. Reports a shape that is too large to count, or of too many axes.
  void result(DType dtype, Shape shape, int rows);
  const std::vector<ops::Result>& results() const { return results_; }

  /// Runs a record's shape function, after `normalise` where `normalised` is false.
  void run(const ops::OpSpec& spec, bool normalised);

 private:
  ir::Attributes& attributes_;
  std::vector<ops::Result> results_;
};

/// The rule of ops whose result has operand 0's dtype, shape and rows.
void infer_like_operand(Inference& inference);

/// What a gradient rule works with: the forward node and the gradients of its results.
struct GradientContext {
  ir::Builder& builder;
  ir::Node node;                              // a copy: the graph grows meanwhile
  std::vector<ir::ValueId> result_gradients;  // invalid: the loss does not depend on that result
  /// Is the gradient of operand i wanted? (Inputs' are not, unless watched.)
  std::vector<bool> wanted;
  std::vector<std::string> names;  // what the gradient of operand i is called: "conv1/conv:diff"

  ir::ValueId operand(size_t i) const { return node.operands[i]; }
  ir::ValueId result(size_t i) const { return node.results[i]; }
  ir::ValueId gradient(size_t i = 0) const { return result_gradients[i]; }
  const ir::Value& value_of(ir::ValueId id) const;
  /// Adds the op that makes the gradient of operand i, or where `part` is given, one on the way.
  ir::ValueId add(std::string_view op, size_t i, std::vector<ir::ValueId> operands,
                  ir::Attributes attributes, std::string_view part = {});
};

/// What a layer's expansion works with: its operands and attributes, and the builder, in whose
/// scope the primitives and variables are named.
struct LayerContext {
  ir::Builder& builder;
  std::string name;  // of the entry: "lenet/conv1"
  std::vector<ir::ValueId> operands;
  ir::Attributes attributes;
  const std::vector<std::pair<std::string, plan::Initializer>>& initializers;
  const AttributeSpans& spans;
  bool train = false;  // a train job's, where `training` does not say otherwise
  bool trainable = true;
  std::string variables = {};  // the entry whose variables it uses; empty: its own
  Span shared_at = {};         // of the `variables:` that says so

  const ir::Value& operand(size_t i) const;
  /// The float dtype of the job.
  DType number() const;
  CallSite site() const;
  /// The layer's operands and attributes as functions of ops/ see them, and the report of what
  /// those refuse: true where they refused anything.
  ops::Call call() const;
  bool report(const ops::Call& call) const;
  /// Adds the primitive `op` under the layer's name; first result. Its errors are at `op:`.
  ir::ValueId add(std::string_view op, std::string_view part, std::vector<ir::ValueId> operands,
                  ir::Attributes op_attributes) const;
  /// The value after the op that the attribute `activation` names.
  ir::ValueId activate(ir::ValueId value) const;
  /// Adds the layer's variable `part` (or where that is empty, one of the layer's own name) with
  /// the initializer that the file gives to `attribute` ("kernel_initializer"), and the regularizer
  /// beside it ("kernel_regularizer"); or finds it, where another entry's variables are used.
  /// Invalid after an error.
  ir::ValueId add_variable(std::string_view part, std::string_view attribute, DType dtype,
                           Shape shape, Fans fans) const;
  /// The same where the file has no say in how it starts; `trained`: by the optimizer.
  ir::ValueId add_variable(std::string_view part, plan::Initializer initializer, DType dtype,
                           Shape shape, bool trained) const;

 private:
  ir::ValueId shared_variable(std::string_view part, DType dtype, const Shape& shape) const;
};

using InferRule = void (*)(Inference&);
/// The gradient of each operand (invalid where there is none). Sums over broadcasting are the
/// rule's own.
using GradientRule = std::vector<ir::ValueId> (*)(GradientContext&);
/// The value that the entry stands for; invalid after an error, which has been reported. Called by
/// Builder::add_layer, which has filled in the attributes and checked the operands.
using ExpandRule = ir::ValueId (*)(LayerContext&);

/// An op: a primitive (infer, gradient), a layer (expand), or a primitive that a layer of the same
/// name stands before (dropout, which is nothing in predict jobs). A rule takes what it needs as an
/// argument and returns what it makes.
struct OpDef {
  std::string_view name;
  std::string_view doc;      // one sentence
  std::string_view formula;  // "y = max(x, 0)"
  std::vector<OperandDef> operands;
  std::vector<AttributeDef> attributes = {};
  /// The first is what the entry stands for, others are its ports. A `*` after the name of a single
  /// one: as many as infer makes, with numbers ("out*": out0, out1, ...).
  std::vector<std::string_view> results = {"out"};
  InferRule infer = nullptr;
  GradientRule gradient = nullptr;
  ExpandRule expand = nullptr;
  const ops::OpSpec* spec = nullptr;  // whose shape function it has, where `infer` is null
  bool takes_variables = false;       // its entry may say `trainable` and `variables`
  bool trains_otherwise = false;      // than it predicts; its entry may say `training`
  bool port_gradients = false;  // the rule takes gradients of any result, not of the first alone
  bool elementwise = false;     // the first result has operand 0's shape, element i from element i:
                                // may be fused as a post, may run in place
  bool internal = false;        // made by passes; not to be written in a job file
  /// Small calls for the property tests: "matmul(f32[3,4], f32[4,2]) transpose_b=false".
  std::vector<std::string_view> examples = {};

  /// The attribute of that name, or null.
  const AttributeDef* attribute(std::string_view attribute_name) const;
  /// Is it a node of the graph, or only a layer, which expands to some?
  bool is_primitive() const { return infer || (spec && spec->infer); }
};

/// Runs the op's shape function; `normalised`: its attributes are.
void infer(const OpDef& op, Inference& inference, bool normalised);

/// The name of result i as a port: "mask", "out1".
std::string result_name(const OpDef& op, size_t i);

/// All ops, in the order of ops.def.
std::span<const OpDef* const> all_ops();
/// The op of that name, or null.
const OpDef* find_op(std::string_view name);

/// Those that a job file may name.
std::vector<const OpDef*> written_ops();
/// The one of them of that name, or null.
const OpDef* find_written_op(std::string_view name);

/// Fills in what is defaulted, and reports what is missing, of another type or outside its range;
/// false then. `name` is the entry's.
bool complete_attributes(const OpDef& op, std::string_view name, const AttributeSpans& spans,
                         Diags& diags, ir::Attributes& attributes);

}  // namespace flow
