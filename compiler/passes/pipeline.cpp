// Lists the passes in their order, and contains the shortest ones.
#include "compiler/passes/pipeline.h"

#include <algorithm>

#include "compiler/passes/passes.h"
#include "ops/core/known.h"
#include "ops/core/spec.h"

namespace flow::passes {
namespace {

constexpr Pass kPasses[] = {
    {"slice_shared", slice_shared},
    {"autodiff", autodiff},
    {"drop_stop_gradients", drop_stop_gradients},
    {"add_updates", add_updates},
    {"statistics_last", statistics_last},
    {"remove_dead", remove_dead},
    {"cut_shards", cut_shards},
    {"join_slice_grads", join_slice_grads},
    {"join_shared_grads", join_shared_grads},
    {"move_relu_grad", move_relu_grad},
    {"fuse_relu_grad", fuse_relu_grad},
    {"low_precision_products", low_precision_products},
    {"fuse_epilogues", fuse_epilogues},
    {"fuse_updates", fuse_updates},
    {"widen_variables", widen_variables},
    {"place_devices", place_devices},
    {"order_loop", order_loop},
};

}  // namespace

std::string Training::loss_name() const {
  std::string names = losses.front().name;
  for (size_t i = 1; i < losses.size(); ++i) names += " + " + losses[i].name;
  return names;
}

int64_t Training::loss_elements(const ir::Graph& graph) const {
  return graph[losses.front().value].shape.elements();
}

ir::ValueId delivered_gradient(const ir::Graph& graph, const Context& context, ir::ValueId value) {
  for (const auto& [of, gradient] : context.unscaled)
    if (of == value) return gradient;
  return graph.gradient_of(value);
}

std::span<const Pass> pipeline() { return kPasses; }

void run_pipeline(ir::Graph& graph, Context& context, Diags& diags, bool verify,
                  std::string_view dump_after, std::string* dump) {
  for (const Pass& pass : kPasses) {
    pass.run(graph, context, diags);
    if (diags.has_errors()) return;
    if (verify) ir::verify(graph);
    if (dump && dump_after == pass.name) *dump += ir::print(graph);
  }
}

// Once the gradients exist, stop_gradient is only a reshape to the same shape, which costs nothing.
void drop_stop_gradients(ir::Graph& graph, Context&, Diags&) {
  for (ir::Node& node : graph.nodes) {
    if (!node.op->dropped || node.op == ops::kShardRows) continue;
    node.op = ops::find_spec("reshape");
    node.attributes.set("shape", graph[node.results[0]].shape.extents());
  }
}

// Moving statistics are written in place, so their updates run after all nodes that read them.
void statistics_last(ir::Graph& graph, Context&, Diags&) {
  std::vector<ir::Node> nodes = std::move(graph.nodes);
  std::stable_partition(nodes.begin(), nodes.end(),
                        [](const ir::Node& node) { return !node.op->moves_statistics(); });
  graph.set_nodes(std::move(nodes));
}

}  // namespace flow::passes
