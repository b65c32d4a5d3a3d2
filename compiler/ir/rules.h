// Declares what the compiler adds to the records of ops: gradients of primitives, and expansions of
// layers.
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

/// Returns the attributes with these names.
ir::Attributes picked(const ir::Attributes& attributes,
                      std::initializer_list<std::string_view> names);

/// The input of a gradient rule: the forward node and the gradients of its results.
struct GradientContext {
  ir::Builder& builder;
  ir::Node node;  // a copy, because the graph grows meanwhile
  // An entry is invalid if the loss does not depend on that result.
  std::vector<ir::ValueId> result_gradients;
  /// Whether the gradient of operand i is needed. The gradients of inputs are not, unless they are
  /// watched.
  std::vector<bool> wanted;
  // The name of the gradient of operand i, such as "conv1/conv:diff".
  std::vector<std::string> names;
  /// Requests the gradient of operand 0, a table, as rows. Rules that do not support this make a
  /// dense gradient.
  bool wants_rows = false;
  ir::ValueId indices = {};  // the indices of the rows, if a rule has made rows

  ir::ValueId operand(size_t i) const { return node.operands[i]; }
  ir::ValueId result(size_t i) const { return node.results[i]; }
  ir::ValueId gradient(size_t i = 0) const { return result_gradients[i]; }
  /// Returns the named attributes of the forward op.
  ir::Attributes attributes(std::initializer_list<std::string_view> of) const {
    return picked(node.attributes, of);
  }
  /// Returns the value as the rule should see it: if the node is per shard, with the shape of one
  /// shard.
  ir::Value value_of(ir::ValueId id) const;
  /// Adds the op that makes the gradient of operand i, or an intermediate op if `part` is not
  /// empty.
  ir::ValueId add(std::string_view op, size_t i, std::vector<ir::ValueId> operands,
                  ir::Attributes op_attributes = {}, std::string_view part = {});
  /// Adds an op that makes several gradients, and returns all of its results, which are invalid
  /// after an error. The first result is the gradient of operand 0.
  std::vector<ir::ValueId> add_all(std::string_view op, std::vector<ir::ValueId> operands,
                                   ir::Attributes op_attributes);
  /// Adds a reshape of the value.
  ir::ValueId reshape(size_t i, ir::ValueId value, std::vector<int64_t> shape,
                      std::string_view part = {});
  /// Adds a tensor of equal elements.
  ir::ValueId fill(size_t i, double value, const Shape& shape, DType dtype,
                   std::string_view part = {});
  /// Returns `make(i)` for each operand i whose gradient is needed, and invalid ids for the other
  /// operands.
  template <typename Make>
  std::vector<ir::ValueId> each_wanted(Make make) const {
    std::vector<ir::ValueId> gradients(node.operands.size());
    for (size_t i = 0; i < gradients.size(); ++i)
      if (wanted[i]) gradients[i] = make(i);
    return gradients;
  }
  /// Returns the gradient of operand 0 if the forward op has picked slices of it along an axis.
  /// `rows` contains the gradients of these slices. If the gradient is requested as rows, returns
  /// `rows` themselves.
  ir::ValueId add_picked(ir::ValueId picked, ir::ValueId rows, int64_t axis = 0);
};

/// The input of a layer's expansion: its operands and attributes, and the builder, which names
/// primitives and variables after the layer.
struct LayerContext {
  ir::Builder& builder;
  std::string name;  // the name of the entry, such as "lenet/conv1"
  std::vector<ir::ValueId> operands;
  ir::Attributes attributes;
  const std::vector<std::pair<std::string, WrittenInitializer>>& initializers;
  const AttributeSpans& spans;
  // Whether the job trains, unless the attribute `training` overrides it.
  bool train = false;
  bool trainable = true;
  // The entry whose variables the layer uses. Empty if it has variables of its own.
  std::string variables = {};
  Span shared_at = {};  // the position of `variables:`
  // The 16-bit dtype in which the variables are stored, if they are frozen.
  std::optional<DType> stored = {};
  Span stored_at = {};  // the position of `variable_dtype:`

  const ir::Value& operand(size_t i) const;
  /// The float dtype of the job.
  DType compute_dtype() const;
  CallSite site() const;
  const ir::Graph& graph() const;
  /// Returns the layer's operands and attributes as the functions of ops/ see them.
  ops::Call call() const { return typed_call(graph(), operands, attributes); }
  /// Reports the refusals of these functions, and returns true if there are any.
  bool report(const ops::Call& call) const;
  /// Returns the attribute `axis` as an axis of operand 0. Reports an axis that is out of range.
  std::optional<int> axis() const;
  /// Adds the primitive `op` under the layer's name, and returns its first result. Its errors point
  /// at `op:`.
  ir::ValueId add(std::string_view op, std::string_view part, std::vector<ir::ValueId> op_operands,
                  ir::Attributes op_attributes = {}) const;
  /// Returns result i of the node whose first result is `first`.
  ir::ValueId result_beside(ir::ValueId first, size_t i) const;
  /// Adds a reshape of the value.
  ir::ValueId reshape(std::string_view part, ir::ValueId value, std::vector<int64_t> shape) const;
  /// Adds a tensor of equal elements. number() adds a scalar.
  ir::ValueId fill(std::string_view part, double value, const Shape& shape, DType dtype) const;
  ir::ValueId number(std::string_view part, double value, DType dtype) const {
    return fill(part, value, {}, dtype);
  }
  ir::ValueId number(std::string_view part, double value) const {
    return number(part, value, compute_dtype());
  }
  /// Adds the op that the attribute `activation` names, and returns its result.
  ir::ValueId activate(ir::ValueId value) const;
  /// Adds the variable `part` of the layer; if `part` is empty, the variable has the layer's name.
  /// The file gives its initializer in `attribute` ("kernel_initializer"), and its regularizer in
  /// the corresponding attribute ("kernel_regularizer"). If the layer uses the variables of another
  /// entry, returns that entry's variable instead. Returns an invalid id after an error.
  ir::ValueId add_variable(std::string_view part, std::string_view attribute, DType dtype,
                           Shape shape, Fans fans) const;
  /// Adds a variable whose initializer the file cannot change.
  ir::ValueId add_variable(std::string_view part, plan::Initializer initializer, DType dtype,
                           Shape shape) const;
  /// Adds the table of an embedding, of shape (vocab_size, units), as the attributes define it.
  /// Returns an invalid id after an error.
  ir::ValueId add_table() const;
  /// Adds a variable that the layer itself updates instead of an optimizer.
  ir::ValueId add_statistic(std::string_view part, plan::Initializer initializer, DType dtype,
                            Shape shape) const;

 private:
  ir::ValueId add_own(std::string_view part, plan::Initializer initializer, DType dtype,
                      Shape shape, bool trained) const;
  ir::ValueId shared_variable(std::string_view part, DType dtype, const Shape& shape) const;
};

/// Returns the gradient of each operand, or an invalid id if there is none. The rule itself sums
/// over the axes along which operands were broadcast.
using GradientRule = std::vector<ir::ValueId> (*)(GradientContext&);
/// Returns the value of the entry, or an invalid id after an error, which has been reported.
/// Builder::add_layer calls it after it has set default attributes and checked the operands.
using ExpandRule = ir::ValueId (*)(LayerContext&);

namespace grad {

struct Rules {
  std::string_view op;
  GradientRule gradient = nullptr;  // null if the loss cannot depend on the op
  ExpandRule expand = nullptr;      // null unless the op is a layer
};

#define FLOW_UNDIFFERENTIATED(family)
#define FLOW_FAMILY(family) std::vector<Rules> family();
#include "ops/families.def"

/// Returns the rules of an op. Both are null if it has none.
Rules rules_of(const ops::OpSpec& op);

}  // namespace grad
}  // namespace flow
