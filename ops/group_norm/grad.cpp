// Expansions of the group and instance normalization layers, and the gradient of group_normalize.
#include "compiler/grad/shared_parts.h"
#include "ops/core/shared_attributes.h"

namespace flow::grad {
namespace {

using ir::ValueId;

ValueId expand_group_norm(LayerContext& context) {
  const ir::Value x = context.operand(0);
  ops::Call call = context.call();
  ops::has_groups(call);
  if (context.report(call)) return {};
  const int64_t groups = x.shape[0] * context.attributes.get<int64_t>("groups");
  if (!has_values(context, x.shape.elements() / groups, "group", "use fewer groups")) return {};
  const auto [gamma, beta] = add_affine(context, x.dtype, {x.shape[1]}, true, true);
  return context.add("group_normalize", "normalize", {context.operands[0], gamma, beta},
                     picked(context.attributes, {"groups", "epsilon"}));
}

/// Expands instance_norm as a group normalization in which each channel is a group.
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
  return context.add_all("group_normalize_grad",
                         {context.gradient(), context.operand(0), context.operand(1),
                          context.result(1), context.result(2)},
                         context.attributes({"groups", "epsilon"}));
}

}  // namespace

std::vector<Rules> group_norm() {
  return {{"group_norm", nullptr, expand_group_norm},
          {"instance_norm", nullptr, expand_instance_norm},
          {"group_normalize", group_normalize_gradient}};
}

}  // namespace flow::grad
