// The rectifier's gradient moves below max-pooling's.
//
// An element's gradient passes max_pool2d_grad where it is its window's maximum, and there the
// rectifier's result y is the pooled p: whether y > 0 can be asked of p, which has a fraction of
// the elements. Where windows overlap all that chose an element have the same p.
#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"
#include "ops/core/known.h"

namespace flow::passes {
namespace {

using ir::ValueId;

class Mover {
 public:
  Mover(ir::Graph& graph, Diags& diags)
      : graph_(graph), builder_(graph, diags), reads_(main_reads(graph)) {}

  bool run() {
    const size_t count = graph_.nodes.size();
    std::vector<size_t> before;  // of each node that is added: where it goes
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
  /// For relu_grad(max_pool2d_grad(dp, argmax), y): the max_pool2d of y that made argmax, or null.
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

}  // namespace

void move_relu_grad(ir::Graph& graph, Context& context, Diags& diags) {
  // What was max_pool2d_grad's result may be watched still, and is dead or a probe otherwise.
  if (Mover(graph, diags).run()) remove_dead(graph, context, diags);
}

}  // namespace flow::passes
