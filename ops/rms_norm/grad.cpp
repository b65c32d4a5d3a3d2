// Root mean square normalization: the layer, and the gradient of its primitive.
#include "compiler/grad/normalization.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/rules.h"
#include "ops/core/axes.h"

namespace flow::grad {
namespace {

using ir::ValueId;

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

std::span<const Rules> rms_norm() {
  static constexpr Rules kRules[] = {{"rms_norm", nullptr, expand_rms_norm},
                                     {"rms_normalize", rms_normalize_gradient}};
  return kRules;
}

}  // namespace flow::grad
