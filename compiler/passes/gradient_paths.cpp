// Finds the values that gradients flow through, and reports what blocks gradients.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/passes/passes.h"

namespace flow::passes {

using ir::NodeId;
using ir::ValueId;

bool GradientPaths::find() {
  for (const Loss& loss : training_.losses)
    if (!check_loss(loss)) return false;
  mark_needed();
  reach(training_.losses);
  return check_variables() && check_sparse();
}

void GradientPaths::reach(const std::vector<Loss>& losses) {
  reached_.assign(reached_.size(), false);
  uses_.assign(uses_.size(), 0);
  for (const Loss& loss : losses) {
    reached_[loss.value.index()] = needed_[loss.value.index()];
    ++uses_[loss.value.index()];
  }
  for (size_t i = forward_; i-- > 0;) {
    const ir::Node& node = graph_.nodes[i];
    if (!is_on_path(node)) continue;
    for (size_t port = 1; port < node.results.size() && !node.op->secondary_gradients; ++port)
      if (reached_[node.results[port].index()]) report_secondary(node, node.results[port]);
    for (const ValueId operand : node.operands)
      if (is_wanted(operand)) {
        reached_[operand.index()] = true;
        ++uses_[operand.index()];
      }
  }
}

bool GradientPaths::is_on_path(const ir::Node& node) const {
  return grad::rules_of(*node.op).gradient &&
         std::ranges::any_of(node.results, [this](ValueId id) { return reached_[id.index()]; });
}

const Span* GradientPaths::sparse_at(ValueId id) const {
  const ir::Variable* variable = graph_.variable_of(id);
  return variable && variable->sparse ? &*variable->sparse : nullptr;
}

bool GradientPaths::check_loss(const Loss& loss) {
  const DType dtype = graph_[loss.value].dtype;
  if (dtype == graph_.compute_dtype) return true;
  diags_
      .error(Diagnosis::kNotALoss, loss.span,
             fmt::format("the loss `{}` is {}; expected {}, the dtype of the job", loss.name,
                         name_of(dtype), name_of(graph_.compute_dtype)))
      .with_hint(
          fmt::format("convert with `{{op: cast, dtype: {}}}`", name_of(graph_.compute_dtype)));
  return false;
}

std::vector<bool> GradientPaths::made_from(const std::vector<ValueId>& roots) const {
  std::vector<bool> made(graph_.values.size());
  const auto mark = [&](ValueId id) {
    if (is_float(graph_[id].dtype)) made[id.index()] = true;
  };
  std::ranges::for_each(roots, mark);
  for (const ir::Node& node : graph_.nodes)
    if (grad::rules_of(*node.op).gradient &&
        std::ranges::any_of(node.operands, [&](ValueId id) { return made[id.index()]; }))
      std::ranges::for_each(node.results, mark);
  return made;
}

void GradientPaths::mark_needed() {
  std::vector<ValueId> asked = training_.variables;
  asked.insert(asked.end(), training_.gradients_of.begin(), training_.gradients_of.end());
  needed_ = made_from(asked);
}

void GradientPaths::report_secondary(const ir::Node& node, ValueId port) {
  diags_.error(Diagnosis::kNotDifferentiable, node.span,
               fmt::format("`{}` depends on `{}`, which has no gradient", training_.loss_name(),
                           graph_[port].name));
}

bool GradientPaths::check_variables() {
  if (diags_.has_errors()) return false;
  const std::vector<bool> made_from_variables = made_from(training_.variables);
  for (const Loss& loss : training_.losses)
    if (!made_from_variables[loss.value.index()]) report_independence(loss, made_from_variables);
  if (diags_.has_errors()) return false;
  for (const ValueId variable : training_.variables)
    if (!reached_[variable.index()])
      diags_
          .warning(Diagnosis::kUntrained, graph_[variable].span,
                   fmt::format("`{}` is not trained: the loss `{}` does not depend on it",
                               graph_[variable].name, training_.loss_name()))
          .with_hint("write `trainable: false` on its entry if this is intended");
  return true;
}

bool GradientPaths::check_sparse() {
  if (graph_.shards == 1) return true;
  for (const ir::Variable& variable : graph_.variables)
    if (variable.sparse && is_wanted(variable.value))
      diags_
          .error(Diagnosis::kSparseGradient, *variable.sparse,
                 fmt::format("`{}` has a sparse gradient in a job with {} shards; expected 1",
                             graph_[variable.value].name, graph_.shards))
          .with_hint("remove `sparse: true`, or use one shard");
  return !diags_.has_errors();
}

void GradientPaths::report_independence(const Loss& loss,
                                        const std::vector<bool>& made_from_variables) {
  const NodeId blocking = find_blocking(loss, made_from_variables);
  if (!blocking.valid()) {
    diags_.error(Diagnosis::kNoVariables, loss.span,
                 fmt::format("the loss `{}` depends on no trainable variable", loss.name));
    return;
  }
  const ir::Node& node = graph_[blocking];
  diags_
      .error(Diagnosis::kNotDifferentiable, node.span,
             fmt::format("{}: `{}` from {} to {} has no gradient", node.name, node.op->name,
                         name_of(graph_[node.operands.front()].dtype),
                         name_of(graph_[node.results.front()].dtype)))
      .label(loss.span, "so this loss trains no variable");
}

NodeId GradientPaths::find_blocking(const Loss& loss,
                                    const std::vector<bool>& made_from_variables) const {
  std::vector<bool> before(graph_.values.size());
  before[loss.value.index()] = true;
  for (size_t i = forward_; i-- > 0;) {
    const ir::Node& node = graph_.nodes[i];
    if (std::ranges::none_of(node.results, [&](ValueId id) { return before[id.index()]; }))
      continue;
    for (const ValueId operand : node.operands) {
      if (made_from_variables[operand.index()]) return NodeId(i);
      before[operand.index()] = true;
    }
  }
  return {};
}

}  // namespace flow::passes
