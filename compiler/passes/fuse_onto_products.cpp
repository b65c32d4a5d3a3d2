// Fuses ops onto the node before them: bias_add, relu and rounding to 16 bits onto a product or
// convolution, relu onto batch normalization too, and plain gradient descent onto the product that
// makes the gradient.
#include <algorithm>
#include <iterator>
#include <list>
#include <set>
#include <vector>

#include "compiler/passes/passes.h"
#include "ops/core/spec.h"

namespace flow::passes {
namespace {

using ir::ValueId;
using ops::Epilogue;
using NodeAt = std::list<ir::Node>::iterator;

class EpilogueFuser {
 public:
  EpilogueFuser(ir::Graph& graph, std::optional<DType> low_precision)
      : graph_(graph),
        low_precision_(low_precision),
        reads_(main_reads(graph)),
        made_by_(graph.values.size(), kNobody) {}

  void run() {
    std::vector<bool> fused(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      ir::Node& node = graph_.nodes[i];
      const size_t host = host_of(node);
      if (host != kNobody) {
        fuse(graph_.nodes[host], node);
        fused[i] = true;
      }
      for (const ValueId result : node.results)
        made_by_[result.index()] = host != kNobody ? host : i;
    }
    std::vector<ir::Node> left;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (!fused[i]) left.push_back(std::move(graph_.nodes[i]));
    graph_.set_nodes(std::move(left));
  }

 private:
  static constexpr size_t kNobody = SIZE_MAX;

  /// Returns the index of the node that `node` can be fused onto, or kNobody.
  size_t host_of(const ir::Node& node) const {
    const Epilogue epilogue = node.op->epilogue;
    if (node.probe || epilogue == Epilogue::kNone || epilogue == Epilogue::kUpdate) return kNobody;
    const ValueId running = node.operands[0];
    const size_t index = made_by_[running.index()];
    if (index == kNobody || reads_[running.index()] != 1) return kNobody;
    const ir::Node& host = graph_.nodes[index];
    if (host.results[0] != running || host.device != node.device || host.once != node.once ||
        host.per_shard != node.per_shard)
      return kNobody;
    const Epilogue last =
        host.epilogue.empty() ? Epilogue::kNone : host.epilogue.back().op->epilogue;
    if (!host.op->can_take(epilogue) || epilogue <= last) return kNobody;
    // Only casts to the dtype of mixed precision are fused.
    if (epilogue == Epilogue::kCast && node.attributes.get<DType>("dtype") != low_precision_)
      return kNobody;
    if (epilogue == Epilogue::kBias) {
      const int rank = graph_[running].shape.rank(), axis = host.op->bias_axis;
      if (node.attributes.get<int64_t>("axis") != (axis < 0 ? rank + axis : axis)) return kNobody;
      const size_t bias_by = made_by_[node.operands[1].index()];
      if (bias_by != kNobody && bias_by >= index) return kNobody;
    }
    return index;
  }

  void fuse(ir::Node& host, const ir::Node& node) const {
    host.epilogue.push_back({node.op,
                             node.name,
                             {node.operands.begin() + 1, node.operands.end()},
                             node.operands[0],
                             node.attributes});
    host.results[0] = node.results[0];
  }

  ir::Graph& graph_;
  const std::optional<DType> low_precision_;
  const std::vector<int> reads_;
  std::vector<size_t> made_by_;  // indexed by ValueId: the index of the node that makes the value
};

/// Returns, indexed by ValueId, one plus the index of the last node on the main path that reads the
/// value. Updates do not count.
std::vector<size_t> last_reads(const ir::Graph& graph) {
  std::vector<size_t> last(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& node = graph.nodes[i];
    if (node.probe || node.op->epilogue == ops::Epilogue::kUpdate) continue;
    for (const ValueId read : reads_of(node)) last[read.index()] = i + 1;
  }
  return last;
}

/// Moves a product to the end, together with every later node that reads a moved result or
/// overwrites an operand of a moved node.
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

void fuse_epilogues(ir::Graph& graph, Context& context, Diags&) {
  EpilogueFuser(graph, context.low_precision).run();
}

void fuse_updates(ir::Graph& graph, Context&, Diags&) {
  if (graph.shards > 1) return;
  const std::vector<int> reads = main_reads(graph);
  const std::vector<size_t> last = last_reads(graph);
  std::list<ir::Node> left;
  // The place of each node in `left`. For a fused node, it is the place of its product.
  std::vector<NodeAt> places;
  for (ir::Node& node : graph.nodes) {
    const ir::NodeId host = node.op->epilogue == ops::Epilogue::kUpdate
                                ? graph[node.operands[0]].producer
                                : ir::NodeId();
    // The product writes the variable in place, so it must come after all nodes that read the
    // variable.
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
