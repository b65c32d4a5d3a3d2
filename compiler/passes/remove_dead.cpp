// Nodes that nothing reads go; nodes that hooks alone read become probes.
#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"

namespace flow::passes {
namespace {

bool makes_any(const ir::Node& node, const std::vector<bool>& needed) {
  for (const ir::ValueId result : node.results)
    if (needed[result.index()]) return true;
  return false;
}

/// By ValueId: what must be computed for `roots`.
std::vector<bool> needed_for(const ir::Graph& graph, const std::vector<ir::ValueId>& roots) {
  std::vector<bool> needed(graph.values.size());
  for (const ir::ValueId root : roots) needed[root.index()] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const ir::Node& node = graph.nodes[i];
    if (makes_any(node, needed))
      for (const ir::ValueId read : reads_of(node)) needed[read.index()] = true;
  }
  return needed;
}

}  // namespace

void remove_dead(ir::Graph& graph, Context&, Diags&) {
  std::vector<ir::ValueId> roots = graph.results;
  for (const ir::Variable& variable : graph.variables)
    if (variable.updated.valid()) roots.push_back(variable.updated);
  for (const ir::Node& node : graph.nodes)
    if (node.op->result(0).replaces) roots.push_back(node.results[0]);
  if (graph.loop)
    for (const ir::State& state : graph.loop->states)
      roots.insert(roots.end(), {state.first, state.updated});
  const auto on_main_path = needed_for(graph, roots);
  const auto watched = needed_for(graph, graph.watched);
  std::vector<ir::Node> kept;
  for (ir::Node& node : graph.nodes) {
    node.probe = !makes_any(node, on_main_path);
    if (!node.probe || makes_any(node, watched)) kept.push_back(std::move(node));
  }
  graph.set_nodes(std::move(kept));
}

}  // namespace flow::passes
