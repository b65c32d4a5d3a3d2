// Layer normalization and root mean square normalization: the layers, and the gradients of their
// primitives.
#include "compiler/grad/layers.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/rules.h"
#include "ops/core/axes.h"

namespace flow::grad {
namespace {

using ir::ValueId;

ir::Attributes normalized_from(int64_t axis, const LayerContext& context) {
  return {{"axis", axis}, {"epsilon", *context.attributes.find("epsilon")}};
}

ValueId expand_layer_norm(LayerContext& context) {
  const ir::Value x = context.operand(0);
  ops::Call call = context.call();
  const auto axis = ops::axis_in_range(call, context.attributes.get<int64_t>("axis"), x.shape);
  if (context.report(call)) return {};
  if (!has_values(context, x.shape.from(*axis).elements(), "row",
                  "normalize over more axes, or use more units"))
    return {};
  const auto [gamma, beta] =
      add_affine(context, x.dtype, x.shape.from(*axis), context.attributes.get<bool>("scale"),
                 context.attributes.get<bool>("center"));
  return context.add("layer_normalize", "normalize", {context.operands[0], gamma, beta},
                     normalized_from(*axis, context));
}

std::vector<ValueId> layer_normalize_gradient(GradientContext& context) {
  const ir::Attributes& forward = context.node.attributes;
  const ValueId dx =
      context.add("layer_normalize_grad", 0,
                  {context.gradient(), context.operand(0), context.operand(1), context.result(1),
                   context.result(2)},
                  {{"axis", *forward.find("axis")}, {"epsilon", *forward.find("epsilon")}});
  if (!dx.valid()) return std::vector<ValueId>(3);
  const ir::Graph& graph = context.builder.graph();
  return graph.producer_of(dx)->results;
}

ValueId expand_rms_norm(LayerContext& context) {
  const ir::Value x = context.operand(0);
  ops::Call call = context.call();
  const auto axis = ops::axis_in_range(call, context.attributes.get<int64_t>("axis"), x.shape);
  if (context.report(call)) return {};
  const ValueId gamma =
      add_gamma(context, x.dtype, x.shape.from(*axis), context.attributes.get<bool>("scale"));
  return context.add("rms_normalize", "normalize", {context.operands[0], gamma},
                     {{"axis", int64_t{*axis}}, {"epsilon", *context.attributes.find("epsilon")}});
}

std::vector<ValueId> rms_normalize_gradient(GradientContext& context) {
  const ValueId dx =
      context.add("rms_normalize_grad", 0,
                  {context.gradient(), context.operand(0), context.operand(1), context.result(1)},
                  {{"axis", *context.node.attributes.find("axis")}});
  if (!dx.valid()) return std::vector<ValueId>(2);
  const ir::Graph& graph = context.builder.graph();
  return graph.producer_of(dx)->results;
}

}  // namespace

std::span<const Rules> feature_norm() {
  static constexpr Rules kRules[] = {
      {"layer_norm", nullptr, expand_layer_norm},
      {"layer_normalize", layer_normalize_gradient},
      {"rms_norm", nullptr, expand_rms_norm},
      {"rms_normalize", rms_normalize_gradient},
  };
  return kRules;
}

}  // namespace flow::grad
