// Determines which nodes read which values on the main path. Drops nodes that nothing reads, and
// turns nodes that only hooks read into probes.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "ops/core/spec.h"

namespace flow::passes {
namespace {

bool makes_any(const ir::Node& node, const std::vector<bool>& needed) {
  for (const ir::ValueId result : node.results)
    if (needed[result.index()]) return true;
  return false;
}

/// Returns which values must be computed for `roots`, indexed by ValueId.
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

std::vector<ir::ValueId> reads_of(const ir::Node& node) {
  std::vector<ir::ValueId> reads = node.operands;
  for (const ir::EpilogueOp& fused : node.epilogue)
    reads.insert(reads.end(), fused.operands.begin(), fused.operands.end());
  return reads;
}

std::vector<int> main_reads(const ir::Graph& graph) {
  std::vector<int> reads(graph.values.size());
  for (const ir::Node& node : graph.nodes)
    if (!node.probe)
      for (const ir::ValueId read : reads_of(node)) ++reads[read.index()];
  for (const ir::ValueId result : graph.results) ++reads[result.index()];
  for (const ir::Variable& variable : graph.variables)
    if (variable.updated.valid()) ++reads[variable.updated.index()];
  if (graph.loop)
    for (const ir::State& state : graph.loop->states) {
      ++reads[state.first.index()];
      ++reads[state.updated.index()];
    }
  return reads;
}

std::vector<bool> values_of_passes(const ir::Graph& graph) {
  std::vector<bool> first(graph.values.size()), varies(graph.values.size());
  const auto any = [](const std::vector<ir::ValueId>& ids, const std::vector<bool>& marked) {
    return std::ranges::any_of(ids, [&](ir::ValueId id) { return marked[id.index()]; });
  };
  for (const ir::State& state : graph.loop->states) {
    varies[state.value.index()] = true;
    if (state.first.valid()) first[state.first.index()] = true;
  }
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (any(node->results, first))
      for (const ir::ValueId read : reads_of(*node)) first[read.index()] = true;
  for (const ir::Node& node : graph.nodes) {
    const bool draws = node.attributes.has("consumer") && !any(node.results, first);
    if (node.loop_part == ir::LoopPart::kAfter || !(draws || any(reads_of(node), varies))) continue;
    for (const ir::ValueId result : node.results) varies[result.index()] = true;
    for (const ir::EpilogueOp& fused : node.epilogue) varies[fused.replaced.index()] = true;
  }
  return varies;
}

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
