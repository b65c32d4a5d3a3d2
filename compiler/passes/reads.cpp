// Who reads what on the main path.
#include "compiler/passes/reads.h"

#include <algorithm>

namespace flow::passes {

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

}  // namespace flow::passes
