// The passes in their order.
#include "compiler/passes/pipeline.h"

#include "compiler/passes/passes.h"

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

}  // namespace flow::passes
