// Frozen variables in 16 bits. Each reader has its own cast right before it: one that all of them
// shared would keep the widened value from the forward pass to the backward pass.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"
#include "ops/core/known.h"

namespace flow::passes {
namespace {

using ir::ValueId;

class Widening {
 public:
  Widening(ir::Graph& graph, Diags& diags)
      : graph_(graph), builder_(graph, diags), same_(graph.values.size()) {}

  void run() {
    for (const ir::Variable& variable : graph_.variables)
      if (variable.stored) graph_[variable.value].dtype = *variable.stored;
    const size_t old = graph_.nodes.size();
    for (size_t i = 0; i < old; ++i) widen_operands(i);
    graph_.move_last(before_);
  }

 private:
  bool is_stored(ValueId id) const {
    const ir::Variable* variable = graph_.variable_of(id);
    return variable && variable->stored;
  }

  /// Operand `at` of a node; those of its epilogue ops follow its own.
  ValueId& operand(size_t node, size_t at) {
    ir::Node& of = graph_.nodes[node];
    if (at < of.operands.size()) return of.operands[at];
    at -= of.operands.size();
    auto fused = of.epilogue.begin();
    for (; at >= fused->operands.size(); ++fused) at -= fused->operands.size();
    return fused->operands[at];
  }

  void widen_operands(size_t i) {
    const ir::Node& node = graph_.nodes[i];
    if (node.op == ops::kCast && is_stored(node.operands[0])) return note_idle(node);
    if (node.op == ops::kGather && node.epilogue.empty() && is_stored(node.operands[0]))
      return gather(i);
    const size_t operands = reads_of(node).size();
    std::map<int32_t, ValueId> widened;  // a node may read a variable twice
    for (size_t at = 0; at < operands; ++at) {
      const ValueId value = operand(i, at);
      if (is_stored(value)) {
        const auto [found, fresh] = widened.try_emplace(value.value);
        if (fresh) found->second = add_cast(value, graph_.compute_dtype, i, i);
        operand(i, at) = found->second;
      } else if (value.index() < same_.size() && same_[value.index()].valid()) {
        operand(i, at) = same_[value.index()];
      }
    }
  }

  /// A cast to the dtype that the variable has already gives the variable.
  void note_idle(const ir::Node& cast) {
    const ValueId made = cast.results[0], variable = cast.operands[0];
    const auto lacks = [made](const std::vector<ValueId>& ids) {
      return std::ranges::find(ids, made) == ids.end();
    };
    if (graph_[made].dtype == graph_[variable].dtype && lacks(graph_.results) &&
        lacks(graph_.watched))
      same_[made.index()] = variable;
  }

  /// Slices are gathered in 16 bits and widened then: they are fewer than all of the variable.
  void gather(size_t i) {
    const ValueId made = graph_.nodes[i].results[0], variable = graph_.nodes[i].operands[0];
    ir::Value stored = graph_[made];
    const DType dtype = stored.dtype;
    stored.dtype = graph_[variable].dtype;
    stored.name += ":" + std::string(name_of(stored.dtype));
    const ValueId gathered(graph_.values.size());
    graph_.values.push_back(std::move(stored));
    graph_.nodes[i].results[0] = gathered;
    const ValueId widened = add_cast(gathered, dtype, i, i + 1);
    ir::Node& cast = graph_.nodes.back();
    graph_[made].producer = graph_[widened].producer;
    cast.name = graph_[made].name + ":" + std::string(name_of(dtype));
    cast.results[0] = made;
  }

  /// For what node i reads or makes, placed before the node `before`.
  ValueId add_cast(ValueId value, DType dtype, size_t i, size_t before) {
    const ir::Node& node = graph_.nodes[i];
    const bool probe = node.probe;
    builder_.place_on(node.device);
    builder_.compute_per_shard(graph_.is_own(value) ? ir::PerShard::kAlways : ir::PerShard::kNever);
    const ValueId made =
        builder_.add("cast", fmt::format("{}:{}", graph_[value].name, name_of(dtype)), {value},
                     {{"dtype", dtype}}, node.span);
    graph_.nodes.back().probe = probe;
    before_.push_back(before);
    return made;
  }

  ir::Graph& graph_;
  ir::Builder builder_;
  std::vector<ValueId> same_;   // by ValueId: the variable that an idle cast gives
  std::vector<size_t> before_;  // of each added cast: the node that it goes before
};

}  // namespace

void widen_variables(ir::Graph& graph, Context& context, Diags& diags) {
  const auto is_stored = [](const ir::Variable& variable) { return variable.stored.has_value(); };
  if (std::ranges::none_of(graph.variables, is_stored)) return;
  Widening(graph, diags).run();
  remove_dead(graph, context, diags);  // idle casts
}

}  // namespace flow::passes
