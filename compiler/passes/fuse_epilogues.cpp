// bias_add, relu and rounding to 16 bits are fused onto the product or convolution before them,
// relu onto batch normalization too.
#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"
#include "ops/core/spec.h"

namespace flow::passes {
namespace {

using ir::ValueId;
using ops::Epilogue;

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

  /// The index of the node that `node` can be fused onto.
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
    // To the dtype of mixed precision; other casts stand apart.
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
  std::vector<size_t> made_by_;  // by ValueId: the index of the node
};

}  // namespace

void fuse_epilogues(ir::Graph& graph, Context& context, Diags&) {
  EpilogueFuser(graph, context.low_precision).run();
}

}  // namespace flow::passes
