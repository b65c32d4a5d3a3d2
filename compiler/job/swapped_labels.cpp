// Cross entropies whose logits come first, as PyTorch has them.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/bind.h"
#include "compiler/ops/op_def.h"

namespace flow::job {
namespace {

/// By ValueId: what depends on variables that may be trained.
std::vector<bool> find_trained(const ir::Graph& graph) {
  std::vector<bool> trained(graph.values.size());
  for (const ir::Variable& variable : graph.variables)
    trained[variable.value.index()] = variable.trainable;
  for (const ir::Node& node : graph.nodes) {
    const bool any = std::ranges::any_of(
        node.operands, [&](ir::ValueId id) { return id.valid() && trained[id.index()]; });
    const bool passes = any && node.op->name != "stop_gradient";
    for (const ir::ValueId result : node.results) trained[result.index()] = passes;
  }
  return trained;
}

}  // namespace

void warn_of_swapped_labels(Reader& reader, const ir::Graph& graph) {
  const std::vector<bool> trained = find_trained(graph);
  for (const ir::Node& node : graph.nodes) {
    if (node.op->name != "softmax_cross_entropy_with_logits" &&
        node.op->name != "sigmoid_cross_entropy_with_logits")
      continue;
    if (!trained[node.operands[0].index()] || trained[node.operands[1].index()]) continue;
    reader.diags
        .warning(Diagnosis::kSwappedLabels, node.span,
                 fmt::format("{}: the labels, `{}`, depend on what is trained, and the logits, "
                             "`{}`, do not",
                             node.name, graph[node.operands[0]].name, graph[node.operands[1]].name))
        .with_hint("labels come first; `labels: ...` and `logits: ...` may stand in any order");
  }
}

}  // namespace flow::job
