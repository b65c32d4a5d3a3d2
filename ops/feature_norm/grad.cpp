// Layer normalization and root mean square normalization: the layers, and the gradients of their
// primitives.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

using ir::ValueId;

ir::Attributes normalized_from(int64_t axis, const LayerContext& context) {
  return {{"axis", axis}, {"epsilon", *context.attributes.find("epsilon")}};
}

ValueId expand_layer_norm(LayerContext& context) {
  const ir::Value x = context.operand(0);
  const auto axis = context.axis();
  if (!axis || !has_values(context, x.shape.from(*axis).elements(), "row",
                           "normalize over more axes, or use more units"))
    return {};
  const auto [gamma, beta] =
      add_affine(context, x.dtype, x.shape.from(*axis), context.attributes.get<bool>("scale"),
                 context.attributes.get<bool>("center"));
  return context.add("layer_normalize", "normalize", {context.operands[0], gamma, beta},
                     normalized_from(*axis, context));
}

std::vector<ValueId> layer_normalize_gradient(GradientContext& context) {
  return context.add_all("layer_normalize_grad",
                         {context.gradient(), context.operand(0), context.operand(1),
                          context.result(1), context.result(2)},
                         context.attributes({"axis", "epsilon"}));
}

ValueId expand_rms_norm(LayerContext& context) {
  const ir::Value x = context.operand(0);
  const auto axis = context.axis();
  if (!axis) return {};
  const ValueId gamma =
      add_gamma(context, x.dtype, x.shape.from(*axis), context.attributes.get<bool>("scale"));
  return context.add("rms_normalize", "normalize", {context.operands[0], gamma},
                     normalized_from(*axis, context));
}

std::vector<ValueId> rms_normalize_gradient(GradientContext& context) {
  return context.add_all(
      "rms_normalize_grad",
      {context.gradient(), context.operand(0), context.operand(1), context.result(1)},
      context.attributes({"axis"}));
}

}  // namespace

std::vector<Rules> feature_norm() {
  return {{"layer_norm", nullptr, expand_layer_norm},
          {"layer_normalize", layer_normalize_gradient},
          {"rms_norm", nullptr, expand_rms_norm},
          {"rms_normalize", rms_normalize_gradient}};
}

}  // namespace flow::grad
