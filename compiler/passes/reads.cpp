// Who reads what on the main path.
#include "compiler/passes/reads.h"

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

}  // namespace flow::passes
