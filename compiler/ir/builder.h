// The one door through which nodes enter a graph: attributes defaulted, operands checked, shapes
// inferred, names made unique.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/ir/graph.h"
#include "compiler/ops/op_def.h"

namespace flow::ir {

class Builder {
 public:
  Builder(Graph& graph, Diags& diags) : graph_(graph), diags_(diags) {}

  ValueId add_input(std::string name, DType dtype, Shape shape, int rows, Span span);
  ValueId add_variable(std::string name, DType dtype, Shape shape, plan::Initializer initializer,
                       bool trainable, bool slot, Span span);

  /// Adds a primitive; `attributes` lacks what is defaulted. The first result is called `name`,
  /// others `name.port`. Where an operand is invalid (its error was reported before) or the shape
  /// rule fails, reports at most that and returns invalid ids, one for each result.
  std::vector<ValueId> add(const OpDef& op, std::string name, std::vector<ValueId> operands,
                           Attributes attributes, const AttributeSpans& spans);

  /// The same for passes and rules, which know that it fits; blames `span`. First result.
  ValueId add(std::string_view op, std::string name, std::vector<ValueId> operands,
              std::initializer_list<Attributes::Entry> attributes, Span span);

  /// The entry `name` stands for `value`.
  void alias(std::string name, ValueId value);

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  Diags& diags() { return diags_; }

 private:
  std::string unique(std::string name) const;
  Graph& graph_;
  Diags& diags_;
};

}  // namespace flow::ir
