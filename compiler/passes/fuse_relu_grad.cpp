// The rectifier's gradient is fused into those of the batch normalization before it, which read x
// and all that makes the rectified value of it anyway: one pass over memory less for each.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"
#include "ops/core/known.h"

namespace flow::passes {
namespace {

using ir::ValueId;
using ops::Epilogue;

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
  /// The batch_norm whose rectified result the relu_grad looks at, or null.
  const ir::Node* normalisation_of(const ir::Node& relu_grad) const {
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
        node.op->gradient_of == Epilogue::kRelu && !node.probe ? normalisation_of(node) : nullptr;
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
  std::vector<std::vector<size_t>> readers_;  // by ValueId: the nodes whose operand 0 it is
};

}  // namespace

void fuse_relu_grad(ir::Graph& graph, Context& context, Diags& diags) {
  // The rectifier's gradient may be watched still, and is dead or a probe otherwise.
  if (GradFuser(graph).run()) remove_dead(graph, context, diags);
}

}  // namespace flow::passes
