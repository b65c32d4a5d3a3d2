// Moves the gradient of relu before that of max-pooling, or fuses it into those of batch
// normalization.
//
// max_pool2d_grad passes on the gradient of an element only if the element is the maximum of its
// window. In this case the element, a result y of relu, is equal to the pooled value p. So y > 0
// can be tested as p > 0, and p has only a fraction of the elements. If windows overlap, all
// windows that chose an element have the same p.
//
// The gradients of a batch normalization before relu read x and everything else from which the
// input of relu can be recomputed. Recomputing it there saves one pass over memory for each of
// these gradients.
#include <algorithm>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "ops/core/known.h"

namespace flow::passes {
namespace {

using ir::ValueId;
using ops::Epilogue;

class Mover {
 public:
  Mover(ir::Graph& graph, Diags& diags)
      : graph_(graph), builder_(graph, diags), reads_(main_reads(graph)) {}

  bool run() {
    const size_t count = graph_.nodes.size();
    std::vector<size_t> before;  // for each added node, the node that it is placed before
    for (size_t i = 0; i < count; ++i) {
      const ir::Node* pool = matching_pool(graph_.nodes[i]);
      if (!pool) continue;
      const ValueId pooled = pool->results[0];
      const ir::Node unpool = *graph_.producer_of(graph_.nodes[i].operands[0]);
      builder_.place_on(unpool.device);
      const ValueId masked = builder_.add("relu_grad", graph_[pooled].name + ":diff/relu_grad",
                                          {unpool.operands[0], pooled}, {}, graph_.nodes[i].span);
      before.push_back(i);
      ir::Node& node = graph_.nodes[i];
      node.op = unpool.op;
      node.attributes = unpool.attributes;
      node.operands = {masked, unpool.operands[1]};
    }
    graph_.move_last(before);
    return !before.empty();
  }

 private:
  /// For relu_grad(max_pool2d_grad(dp, argmax), y), returns the max_pool2d of y that made argmax.
  /// Returns null for all other nodes.
  const ir::Node* matching_pool(const ir::Node& node) const {
    if (node.op->gradient_of != ops::Epilogue::kRelu || node.probe || node.per_shard)
      return nullptr;
    const ir::Node* unpool = graph_.producer_of(node.operands[0]);
    if (!unpool || unpool->op != ops::kMaxPool2dGrad || reads_[node.operands[0].index()] != 1)
      return nullptr;
    if (unpool->device != node.device || unpool->per_shard) return nullptr;
    const ir::Node* pool = graph_.producer_of(unpool->operands[1]);
    const bool of_this = pool && pool->op == ops::kMaxPool2d &&
                         pool->operands[0] == node.operands[1] &&
                         pool->results[1] == unpool->operands[1];
    return of_this ? pool : nullptr;
  }

  ir::Graph& graph_;
  ir::Builder builder_;
  const std::vector<int> reads_;
};

class GradFuser {
 public:
  explicit GradFuser(ir::Graph& graph)
      : graph_(graph), reads_(main_reads(graph)), readers_(graph.values.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const ir::Node& node = graph.nodes[i];
      if (!node.probe && !node.operands.empty()) readers_[node.operands[0].index()].push_back(i);
    }
  }

  bool run() {
    bool changed = false;
    for (const ir::Node& node : graph_.nodes) changed |= fuse(node);
    return changed;
  }

 private:
  /// Returns the batch_norm whose result the relu of `relu_grad` reads, or null.
  const ir::Node* normalization_of(const ir::Node& relu_grad) const {
    const ir::Node* relu = graph_.producer_of(relu_grad.operands[1]);
    if (!relu || relu->op->epilogue != Epilogue::kRelu || relu_grad.per_shard) return nullptr;
    const ir::Node* norm = graph_.producer_of(relu->operands[0]);
    const bool fits = norm && norm->op == ops::kBatchNorm &&
                      norm->results[0] == relu->operands[0] && norm->device == relu_grad.device;
    return fits ? norm : nullptr;
  }

  static bool is_gradient_of(const ir::Node& node, const ir::Node& norm) {
    if (!node.op->attribute("rectified") || node.attributes.get<bool>("rectified")) return false;
    return node.operands[1] == norm.operands[0] && node.operands[4] == norm.results[1];
  }

  bool fuse(const ir::Node& node) {
    const ir::Node* norm =
        node.op->gradient_of == Epilogue::kRelu && !node.probe ? normalization_of(node) : nullptr;
    if (!norm) return false;
    const ValueId masked = node.results[0];
    const std::vector<size_t>& readers = readers_[masked.index()];
    const bool alone = reads_[masked.index()] == std::ssize(readers) &&
                       std::ranges::all_of(readers, [&](size_t reader) {
                         return is_gradient_of(graph_.nodes[reader], *norm);
                       });
    if (!alone) return false;
    for (const size_t reader : readers) {
      graph_.nodes[reader].operands[0] = node.operands[0];
      graph_.nodes[reader].attributes.set("rectified", true);
    }
    return true;
  }

  ir::Graph& graph_;
  const std::vector<int> reads_;
  std::vector<std::vector<size_t>> readers_;  // indexed by ValueId: nodes whose operand 0 it is
};

}  // namespace

void move_relu_grad(ir::Graph& graph, Context& context, Diags& diags) {
  // The old result of max_pool2d_grad is dead now or, if it is watched, a probe.
  if (Mover(graph, diags).run()) remove_dead(graph, context, diags);
}

void fuse_relu_grad(ir::Graph& graph, Context& context, Diags& diags) {
  // The result of relu_grad is dead now or, if it is watched, a probe.
  if (GradFuser(graph).run()) remove_dead(graph, context, diags);
}

}  // namespace flow::passes
