// Layer normalization: the layer, its primitive and that one's gradient.
#include "compiler/ir/builder.h"
#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"
#include "compiler/ops/normalization.h"

namespace flow::defs {
namespace {

using ir::kMixedRows;
using ir::ValueId;

ir::Attributes normalised_from(int64_t axis, const LayerContext& context) {
  return {{"axis", axis}, {"epsilon", *context.attributes.find("epsilon")}};
}

ValueId expand_layer_norm(LayerContext& context) {
  const ir::Value x = context.operand(0);
  CallSite site = context.site();
  const auto axis = axis_in_range(site, context.attributes.get<int64_t>("axis"), x.shape);
  if (!axis) return {};
  const auto [gamma, beta] =
      add_affine(context, x.dtype, x.shape.from(*axis), context.attributes.get<bool>("scale"),
                 context.attributes.get<bool>("center"));
  return context.add("layer_normalize", "normalize", {context.operands[0], gamma, beta},
                     normalised_from(*axis, context));
}

void infer_layer_normalize(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis) return;
  const ir::Value& x = inference.operand(0);
  if (!have_shape(inference, 1, 3, x.shape.from(*axis))) return;
  const int rows = rows_before(x.rows, *axis);
  inference.result(x.dtype, x.shape, rows);
  for (int i = 0; i < 2; ++i) inference.result(x.dtype, x.shape.first(*axis), rows);
}

void infer_layer_normalize_grad(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis) return;
  const ir::Value& dy = inference.operand(0);
  const Shape features = dy.shape.from(*axis);
  if (!have_shape(inference, 1, 2, dy.shape) || !have_shape(inference, 2, 3, features) ||
      !have_shape(inference, 3, 5, dy.shape.first(*axis)))
    return;
  inference.result(dy.dtype, dy.shape, rows_before(dy.rows, *axis));
  const int summed = dy.rows == ir::kNoRows ? ir::kNoRows
                     : dy.rows >= *axis     ? dy.rows - *axis
                                            : kMixedRows;
  for (int i = 0; i < 2; ++i) inference.result(dy.dtype, features, summed);
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

AttributeDef first_axis_attribute() {
  return {"axis", AttributeType::kInteger, "-1", "first of the axes to normalize over"};
}

}  // namespace

std::span<const OpDef> layer_norm() {
  static const OpDef kOps[] = {
      {
          .name = "layer_norm",
          .doc = "Layer normalization (Ba et al., 2016): normalizes each row over the axes from "
                 "`axis` to the last.",
          .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
          .operands = {{"in", "any shape that has the axis"}},
          .attributes = {first_axis_attribute(), epsilon_attribute("1e-5"), center_attribute(),
                         scale_attribute()},
          .expand = expand_layer_norm,
          .takes_variables = true,
      },
      {
          .name = "layer_normalize",
          .doc = "Normalizes each row over the axes from `axis` to the last, by its own mean and "
                 "biased variance.",
          .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
          .operands = {{"x", "any shape that has the axis"},
                       {"gamma", "shape of x from the axis to the last"},
                       {"beta", "shape of x from the axis to the last"}},
          .attributes = {first_axis_attribute(), epsilon_attribute("1e-5")},
          .results = {"out", "mean", "variance"},
          .infer = infer_layer_normalize,
          .gradient = layer_normalize_gradient,
          .internal = true,
          .examples = {"layer_normalize(f32[3,4], f32[4], f32[4])",
                       "layer_normalize(f32[2,3,5], f32[3,5], f32[3,5]) axis=1 epsilon=0.1",
                       "layer_normalize(f32[40,7], f32[7], f32[7])",
                       "layer_normalize(f32[2,3,2,2], f32[2,3,2,2], f32[2,3,2,2]) axis=0"},
      },
      {
          .name = "layer_normalize_grad",
          .doc = "Gradients of layer_normalize.",
          .formula = "dx = r (dy gamma - mean(dy gamma) - n mean(dy gamma n)), "
                     "n = (x - mean) r, r = 1 / sqrt(variance + epsilon); "
                     "dgamma = sum dy n, dbeta = sum dy",
          .operands = {{"dy", "any shape that has the axis"},
                       {"x", "same shape as dy"},
                       {"gamma", "shape of dy from the axis to the last"},
                       {"mean", "shape of dy before the axis"},
                       {"variance", "shape of dy before the axis"}},
          .attributes = {first_axis_attribute(), epsilon_attribute("1e-5")},
          .results = {"out", "dgamma", "dbeta"},
          .infer = infer_layer_normalize_grad,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::defs
