// Plain gradient descent as the epilogue of the product that makes the gradient.
#include <algorithm>
#include <iterator>
#include <list>
#include <set>
#include <vector>

#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"
#include "ops/core/spec.h"

namespace flow::passes {
namespace {

using ir::ValueId;
using NodeAt = std::list<ir::Node>::iterator;

/// By ValueId: the last node but updates that reads it on the main path, counted from 1.
std::vector<size_t> last_reads(const ir::Graph& graph) {
  std::vector<size_t> last(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& node = graph.nodes[i];
    if (node.probe || node.op->epilogue == ops::Epilogue::kUpdate) continue;
    for (const ValueId read : reads_of(node)) last[read.index()] = i + 1;
  }
  return last;
}

/// Moves a product to the end, with every later node that reads what moves or overwrites what it
/// reads.
void move_to_end(std::list<ir::Node>& nodes, NodeAt product, const ir::Graph& graph) {
  std::set<ValueId> read, made;
  const auto overwrites = [&](const ir::Node& node) {
    return std::ranges::any_of(graph.variables, [&](const ir::Variable& variable) {
      return read.contains(variable.value) &&
             std::ranges::find(node.results, variable.updated) != node.results.end();
    });
  };
  std::list<ir::Node> moved;
  for (NodeAt at = product; at != nodes.end();) {
    const NodeAt next = std::next(at);
    const std::vector<ValueId> reads = reads_of(*at);
    const bool depends =
        std::ranges::any_of(reads, [&](ValueId value) { return made.contains(value); });
    if (at == product || depends || overwrites(*at)) {
      read.insert(reads.begin(), reads.end());
      made.insert(at->results.begin(), at->results.end());
      moved.splice(moved.end(), nodes, at);
    }
    at = next;
  }
  nodes.splice(nodes.end(), moved);
}

}  // namespace

void fuse_updates(ir::Graph& graph, Context&, Diags&) {
  if (graph.shards > 1) return;
  const std::vector<int> reads = main_reads(graph);
  const std::vector<size_t> last = last_reads(graph);
  std::list<ir::Node> left;
  std::vector<NodeAt> places;  // in `left`, of each node; of what is fused, its product's
  for (ir::Node& node : graph.nodes) {
    const ir::NodeId host = node.op->epilogue == ops::Epilogue::kUpdate
                                ? graph[node.operands[0]].producer
                                : ir::NodeId();
    // The product writes the variable in place, so it must come after all that read it.
    const bool fuses =
        host.valid() && places[host.index()]->op->can_take(ops::Epilogue::kUpdate) &&
        places[host.index()]->epilogue.empty() && places[host.index()]->device == node.device &&
        reads[node.operands[0].index()] == 1 && last[node.operands[1].index()] <= host.index();
    if (!fuses) {
      places.push_back(left.insert(left.end(), std::move(node)));
      continue;
    }
    const NodeAt product = places[host.index()];
    places.push_back(product);
    const bool tapped = std::any_of(product, left.end(), [&](const ir::Node& later) {
      return &later != &*product && std::ranges::count(reads_of(later), node.operands[1]) > 0;
    });
    if (tapped) move_to_end(left, product, graph);
    product->epilogue.push_back(
        {node.op, node.name, {node.operands[1]}, node.operands[0], node.attributes});
    product->results[0] = node.results[0];
  }
  graph.set_nodes({std::move_iterator(left.begin()), std::move_iterator(left.end())});
}

}  // namespace flow::passes
