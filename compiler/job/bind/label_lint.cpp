// Cross entropies whose logits come first, as PyTorch has them.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/bind/bind.h"
#include "ops/core/spec.h"

namespace flow::job {
namespace {

/// By ValueId: what gradients reach the trained variables from.
std::vector<bool> find_trained(const ir::Graph& graph, const std::vector<ir::ValueId>& variables) {
  std::vector<bool> trained(graph.values.size());
  for (const ir::ValueId variable : variables) trained[variable.index()] = true;
  for (const ir::Node& node : graph.nodes) {
    const bool any = std::ranges::any_of(
        node.operands, [&](ir::ValueId id) { return id.valid() && trained[id.index()]; });
    for (const ir::ValueId result : node.results)
      trained[result.index()] = any && !node.op->dropped && is_float(graph[result].dtype);
  }
  return trained;
}

/// Both floats, so that nothing but their meaning tells them apart.
bool takes_labels_and_logits(const ops::OpSpec& op) {
  return op.operands.size() == 2 && op.operands[0].name == "labels" &&
         op.operands[1].name == "logits" && op.operands[0].accepts == op.operands[1].accepts;
}

/// The entry whose result it is: `net` for "net/bias_add".
std::string entry_name(const ir::Graph& graph, ir::ValueId value) {
  const auto alias = std::ranges::find(graph.aliases, value, &ir::Alias::value);
  return alias == graph.aliases.end() ? graph[value].name : alias->name;
}

}  // namespace

void warn_of_swapped_labels(Reader& reader, const ir::Graph& graph,
                            const std::vector<ir::ValueId>& variables) {
  const std::vector<bool> trained = find_trained(graph, variables);
  for (const ir::Node& node : graph.nodes) {
    if (!takes_labels_and_logits(*node.op)) continue;
    if (!trained[node.operands[0].index()] || trained[node.operands[1].index()]) continue;
    reader.diags
        .warning(Diagnosis::kSwappedLabels, node.span,
                 fmt::format(
                     "{}: the labels `{}` depend on trained variables, but the logits `{}` do not",
                     node.name, entry_name(graph, node.operands[0]),
                     entry_name(graph, node.operands[1])))
        .with_hint("write labels first, or use `labels: ...` and `logits: ...`");
  }
}

}  // namespace flow::job
