// Plain gradient descent as the epilogue of the product that makes the gradient.
#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"

namespace flow::passes {
namespace {

using ir::ValueId;

/// By ValueId: the last node but updates that reads it on the main path, counted from 1.
std::vector<size_t> last_reads(const ir::Graph& graph) {
  std::vector<size_t> last(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& node = graph.nodes[i];
    if (node.tap || node.op->name == "sgd_update") continue;
    for (const ValueId read : reads_of(node)) last[read.index()] = i + 1;
  }
  return last;
}

}  // namespace

void fuse_updates(ir::Graph& graph, Context&, Diags&) {
  const std::vector<int> reads = main_reads(graph);
  const std::vector<size_t> last = last_reads(graph);
  std::vector<ir::Node> left;
  std::vector<size_t> moved(graph.nodes.size());  // where a node lies in `left`
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    ir::Node& node = graph.nodes[i];
    moved[i] = left.size();
    const ir::NodeId host =
        node.op->name == "sgd_update" ? graph[node.operands[0]].producer : ir::NodeId();
    // The product writes the variable in place, so it must come after all that read it.
    const bool fuses = host.valid() && left[moved[host.index()]].op->name == "matmul" &&
                       left[moved[host.index()]].posts.empty() &&
                       left[moved[host.index()]].device == node.device &&
                       reads[node.operands[0].index()] == 1 &&
                       last[node.operands[1].index()] <= host.index();
    if (!fuses) {
      left.push_back(std::move(node));
      continue;
    }
    ir::Node& product = left[moved[host.index()]];
    product.posts.push_back(
        {node.op, node.name, {node.operands[1]}, node.operands[0], node.attributes});
    product.results[0] = node.results[0];
  }
  graph.set_nodes(std::move(left));
}

}  // namespace flow::passes
