// bias_add, relu and rounding to 16 bits are fused onto the product or convolution before them,
// relu onto batch normalization too.
#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"
#include "ops/spec.h"

namespace flow::passes {
namespace {

using ir::ValueId;

class PostFuser {
 public:
  PostFuser(ir::Graph& graph, std::optional<DType> narrow)
      : graph_(graph),
        narrow_(narrow),
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
    const bool bias = node.op->name == "bias_add", cast = node.op->name == "cast";
    if (node.tap || (!bias && !cast && node.op->name != "relu")) return kNobody;
    const ValueId running = node.operands[0];
    const size_t index = made_by_[running.index()];
    if (index == kNobody || reads_[running.index()] != 1) return kNobody;
    const ir::Node& host = graph_.nodes[index];
    if (host.results[0] != running || host.device != node.device) return kNobody;
    const std::string_view last = host.posts.empty() ? "" : host.posts.back().op->name;
    if (cast) return last != "cast" && takes_rounding(host, node) ? index : kNobody;
    if (host.op->name == "batch_norm" || host.op->name == "batch_norm_predict")
      return !bias && last.empty() ? index : kNobody;
    const bool product = host.op->name == "matmul";
    if (!product && host.op->name != "convolution") return kNobody;
    if (bias) {
      const int axis = product ? graph_[running].shape.rank() - 1 : 1;
      if (!last.empty() || node.attributes.get<int64_t>("axis") != axis) return kNobody;
      const size_t bias_by = made_by_[node.operands[1].index()];
      return bias_by == kNobody || bias_by < index ? index : kNobody;
    }
    return last.empty() || last == "bias_add" ? index : kNobody;
  }

  /// To the dtype of mixed precision; other casts stand apart.
  bool takes_rounding(const ir::Node& host, const ir::Node& cast) const {
    return cast.attributes.get<DType>("dtype") == narrow_ &&
           (host.op->name == "matmul" || host.op->name == "convolution" ||
            host.op->name == "convolution_grad_data");
  }

  void fuse(ir::Node& host, const ir::Node& node) const {
    host.posts.push_back({node.op,
                          node.name,
                          {node.operands.begin() + 1, node.operands.end()},
                          node.operands[0],
                          node.attributes});
    host.results[0] = node.results[0];
  }

  ir::Graph& graph_;
  const std::optional<DType> narrow_;
  const std::vector<int> reads_;
  std::vector<size_t> made_by_;  // by ValueId: the index of the node
};

}  // namespace

void fuse_posts(ir::Graph& graph, Context& context, Diags&) {
  PostFuser(graph, context.narrow).run();
}

}  // namespace flow::passes
