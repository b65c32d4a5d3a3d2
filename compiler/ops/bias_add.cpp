// Adding a vector along one axis.
#include <fmt/format.h>

#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

/// The axis for which the bias would do.
std::string other_axis_hint(const Shape& x, const Shape& bias) {
  for (int axis = 0; axis < x.rank(); ++axis)
    if (bias == Shape{x[axis]}) return fmt::format("write `axis: {}`", axis);
  return "give the bias one element per channel";
}

void infer_bias_add(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis || !inference.same_dtype()) return;
  const ir::Value& x = inference.operand(0);
  const ir::Value& bias = inference.operand(1);
  if (bias.shape != Shape{x.shape[*axis]}) {
    inference
        .bad_operand(1, Diagnosis::kShapeMismatch,
                     fmt::format("the bias is {} for {}; expected [{}] for axis {}",
                                 bias.shape.str(), x.shape.str(), x.shape[*axis], *axis))
        .with_hint(other_axis_hint(x.shape, bias.shape));
    return;
  }
  const int from_bias = bias.rows == 0 ? *axis : bias.rows;
  inference.result(x.dtype, x.shape, common_rows(x.rows, from_bias));
}

void infer_bias_add_grad(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis) return;
  const ir::Value& dy = inference.operand(0);
  inference.result(inference.number(), {dy.shape[*axis]}, rows_of_vector(dy.rows, *axis));
}

std::vector<ir::ValueId> bias_add_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0]) gradients[0] = context.gradient();
  if (context.wanted[1])
    gradients[1] = context.add("bias_add_grad", 1, {context.gradient()},
                               {{"axis", *context.node.attributes.find("axis")}});
  return gradients;
}

AttributeDef axis_attribute() {
  return {"axis", AttributeType::kInteger, "1", "axis to add the bias along"};
}

}  // namespace

std::span<const OpDef> bias_add() {
  static const OpDef kOps[] = {
      {
          .name = "bias_add",
          .doc = "Adds a bias vector along one axis.",
          .formula = "y[..., c, ...] = x[..., c, ...] + bias[c]",
          .operands = {{"x", "any shape that has the axis"}, {"bias", "(C), the size of the axis"}},
          .attributes = {axis_attribute()},
          .infer = infer_bias_add,
          .gradient = bias_add_gradient,
          .elementwise = true,
          .examples = {"bias_add(f32[3,4], f32[4])", "bias_add(f32[2,3,5,7], f32[3])",
                       "bias_add(f32[2,3,4], f32[4]) axis=-1", "bias_add(f32[5,2], f32[5]) axis=0"},
      },
      {
          .name = "bias_add_grad",
          .doc = "Gradient of bias_add with respect to the bias.",
          .formula = "dbias[c] = sum dy[..., c, ...]",
          .operands = {{"dy", "any shape that has the axis"}},
          .attributes = {axis_attribute()},
          .infer = infer_bias_add_grad,
          .internal = true,
          .examples = {"bias_add_grad(f32[3,4])", "bias_add_grad(f32[2,3,5,7])",
                       "bias_add_grad(f32[2,3,4]) axis=2", "bias_add_grad(f32[3000,5])"},
      },
  };
  return kOps;
}

}  // namespace flow::defs
