// Group normalization: the layer, and the gradient of its primitive.
#include "compiler/grad/layers.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/rules.h"
#include "ops/core/shared_attributes.h"

namespace flow::grad {
namespace {

using ir::ValueId;

ir::Attributes groups_and_epsilon(const ir::Attributes& from) {
  return {{"groups", *from.find("groups")}, {"epsilon", *from.find("epsilon")}};
}

ValueId expand_group_norm(LayerContext& context) {
  const ir::Value x = context.operand(0);
  ops::Call call = context.call();
  ops::has_groups(call);
  if (context.report(call)) return {};
  const int64_t groups = x.shape[0] * context.attributes.get<int64_t>("groups");
  if (!has_values(context, x.shape.elements() / groups, "group", "use fewer groups")) return {};
  const auto [gamma, beta] = add_affine(context, x.dtype, {x.shape[1]}, true, true);
  return context.add("group_normalize", "normalize", {context.operands[0], gamma, beta},
                     groups_and_epsilon(context.attributes));
}

/// Each channel is a group.
ValueId expand_instance_norm(LayerContext& context) {
  const ir::Value x = context.operand(0);
  if (!has_channels(context, 3) ||
      !has_values(context, x.shape.elements(2, x.shape.rank()), "channel of a sample",
                  "use `batch_normalization` or `layer_norm`"))
    return {};
  const auto [gamma, beta] = add_affine(context, x.dtype, {x.shape[1]}, true, true);
  return context.add("group_normalize", "normalize", {context.operands[0], gamma, beta},
                     {{"groups", x.shape[1]}, {"epsilon", *context.attributes.find("epsilon")}});
}

std::vector<ValueId> group_normalize_gradient(GradientContext& context) {
  const ValueId dx = context.add("group_normalize_grad", 0,
                                 {context.gradient(), context.operand(0), context.operand(1),
                                  context.result(1), context.result(2)},
                                 groups_and_epsilon(context.node.attributes));
  if (!dx.valid()) return std::vector<ValueId>(3);
  const ir::Graph& graph = context.builder.graph();
  return graph.producer_of(dx)->results;
}

}  // namespace

std::span<const Rules> group_norm() {
  static constexpr Rules kRules[] = {{"group_norm", nullptr, expand_group_norm},
                                     {"instance_norm", nullptr, expand_instance_norm},
                                     {"group_normalize", group_normalize_gradient}};
  return kRules;
}

}  // namespace flow::grad
