// What the compiler adds to the records of ops: gradients of primitives, expansions of layers.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/call_site.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/initializers.h"
#include "ops/core/spec.h"

namespace flow {

namespace ir {
class Builder;
}

/// Those of the attributes that have these names.
ir::Attributes picked(const ir::Attributes& attributes,
                      std::initializer_list<std::string_view> names);

/// What a gradient rule works with: the forward node and the gradients of its results.
struct GradientContext {
  ir::Builder& builder;
  ir::Node node;                              // a copy: the graph grows meanwhile
  std::vector<ir::ValueId> result_gradients;  // invalid: the loss does not depend on that result
  /// Is the gradient of operand i wanted? (Inputs' are not, unless watched.)
  std::vector<bool> wanted;
  std::vector<std::string> names;  // what the gradient of operand i is called: "conv1/conv:diff"
  /// The gradient of operand 0, a table, is wanted as rows; a rule that can makes them so.
  bool wants_rows = false;
  ir::ValueId indices = {};  // those of the rows, where a rule has made some

  ir::ValueId operand(size_t i) const { return node.operands[i]; }
  ir::ValueId result(size_t i) const { return node.results[i]; }
  ir::ValueId gradient(size_t i = 0) const { return result_gradients[i]; }
  /// Attributes of the forward op.
  ir::Attributes attributes(std::initializer_list<std::string_view> of) const {
    return picked(node.attributes, of);
  }
  /// As the rule is to see it: of one shard where the node is per shard.
  ir::Value value_of(ir::ValueId id) const;
  /// Adds the op that makes the gradient of operand i, or where `part` is given, one on the way.
  ir::ValueId add(std::string_view op, size_t i, std::vector<ir::ValueId> operands,
                  ir::Attributes op_attributes = {}, std::string_view part = {});
  /// All results of an op that makes several gradients, the first of them that of operand 0;
  /// invalid ones after an error.
  std::vector<ir::ValueId> add_all(std::string_view op, std::vector<ir::ValueId> operands,
                                   ir::Attributes op_attributes);
  /// The value in another shape.
  ir::ValueId reshape(size_t i, ir::ValueId value, std::vector<int64_t> shape,
                      std::string_view part = {});
  /// A tensor of equal elements.
  ir::ValueId fill(size_t i, double value, const Shape& shape, DType dtype,
                   std::string_view part = {});
  /// The gradient of each operand that is wanted: what `make` makes of its number.
  template <typename Make>
  std::vector<ir::ValueId> each_wanted(Make make) const {
    std::vector<ir::ValueId> gradients(node.operands.size());
    for (size_t i = 0; i < gradients.size(); ++i)
      if (wanted[i]) gradients[i] = make(i);
    return gradients;
  }
  /// The gradient of operand 0, of which slices along an axis were picked: `rows` are the gradients
  /// of those. Where rows are wanted, these.
  ir::ValueId add_picked(ir::ValueId picked, ir::ValueId rows, int64_t axis = 0);
};

/// What a layer's expansion works with: its operands and attributes, and the builder, in whose
/// scope the primitives and variables are named.
struct LayerContext {
  ir::Builder& builder;
  std::string name;  // of the entry: "lenet/conv1"
  std::vector<ir::ValueId> operands;
  ir::Attributes attributes;
  const std::vector<std::pair<std::string, WrittenInitializer>>& initializers;
  const AttributeSpans& spans;
  bool train = false;  // a train job's, where `training` does not say otherwise
  bool trainable = true;
  std::string variables = {};        // the entry whose variables it uses; empty: its own
  Span shared_at = {};               // of the `variables:` that says so
  std::optional<DType> stored = {};  // the 16-bit dtype of its variables, where they are frozen
  Span stored_at = {};               // of the `variable_dtype:` that says so

  const ir::Value& operand(size_t i) const;
  /// The float dtype of the job.
  DType compute_dtype() const;
  CallSite site() const;
  const ir::Graph& graph() const;
  /// The layer's operands and attributes as functions of ops/ see them.
  ops::Call call() const { return typed_call(graph(), operands, attributes); }
  /// Reports what such functions refused: true where they refused anything.
  bool report(const ops::Call& call) const;
  /// The attribute `axis` as an axis of operand 0; reports one out of range.
  std::optional<int> axis() const;
  /// Adds the primitive `op` under the layer's name; first result. Its errors are at `op:`.
  ir::ValueId add(std::string_view op, std::string_view part, std::vector<ir::ValueId> op_operands,
                  ir::Attributes op_attributes = {}) const;
  /// Result i of what made `first`, its first result.
  ir::ValueId result_beside(ir::ValueId first, size_t i) const;
  /// The value in another shape.
  ir::ValueId reshape(std::string_view part, ir::ValueId value, std::vector<int64_t> shape) const;
  /// A tensor of equal elements, and a single number.
  ir::ValueId fill(std::string_view part, double value, const Shape& shape, DType dtype) const;
  ir::ValueId number(std::string_view part, double value, DType dtype) const {
    return fill(part, value, {}, dtype);
  }
  ir::ValueId number(std::string_view part, double value) const {
    return number(part, value, compute_dtype());
  }
  /// The value after the op that the attribute `activation` names.
  ir::ValueId activate(ir::ValueId value) const;
  /// Adds the layer's variable `part` (or where that is empty, one of the layer's own name) with
  /// the initializer that the file gives to `attribute` ("kernel_initializer"), and the regularizer
  /// beside it ("kernel_regularizer"); or finds it, where another entry's variables are used.
  /// Invalid after an error.
  ir::ValueId add_variable(std::string_view part, std::string_view attribute, DType dtype,
                           Shape shape, Fans fans) const;
  /// The same where the file has no say in how it starts.
  ir::ValueId add_variable(std::string_view part, plan::Initializer initializer, DType dtype,
                           Shape shape) const;
  /// The table of an embedding (vocab_size, units), as the attributes say; invalid after an error.
  ir::ValueId add_table() const;
  /// A variable that no optimizer trains: the layer itself moves it.
  ir::ValueId add_statistic(std::string_view part, plan::Initializer initializer, DType dtype,
                            Shape shape) const;

 private:
  ir::ValueId add_own(std::string_view part, plan::Initializer initializer, DType dtype,
                      Shape shape, bool trained) const;
  ir::ValueId shared_variable(std::string_view part, DType dtype, const Shape& shape) const;
};

/// The gradient of each operand (invalid where there is none). Sums over broadcasting are the
/// rule's own.
using GradientRule = std::vector<ir::ValueId> (*)(GradientContext&);
/// The value that the entry stands for; invalid after an error, which has been reported. Called by
/// Builder::add_layer, which has filled in the attributes and checked the operands.
using ExpandRule = ir::ValueId (*)(LayerContext&);

namespace grad {

struct Rules {
  std::string_view op;
  GradientRule gradient = nullptr;  // none: the loss cannot depend on it
  ExpandRule expand = nullptr;      // none: not a layer
};

#define FLOW_UNDIFFERENTIATED(family)
#define FLOW_FAMILY(family) std::vector<Rules> family();
#include "ops/families.def"

/// The rules of an op; empty ones where it has none.
Rules rules_of(const ops::OpSpec& op);

}  // namespace grad
}  // namespace flow
