// The records of bias_add, which adds a vector along one axis, and of its gradient.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// Returns a hint that names an axis that the bias fits, if there is one.
std::string other_axis_hint(const Shape& x, const Shape& bias) {
  for (int axis = 0; axis < x.rank(); ++axis)
    if (bias == Shape{x[axis]}) return fmt::format("write `axis: {}`", axis);
  return "give the bias one element per channel";
}

void infer_bias_add(Call& call) {
  const auto axis = axis_of(call);
  if (!axis || !call.same_dtype()) return;
  const Operand& x = call.operand(0);
  const Operand& bias = call.operand(1);
  if (bias.shape != Shape{x.shape[*axis]}) {
    call.bad_operand(1, Reason::kShapeMismatch,
                     fmt::format("the bias is {} for {}; expected [{}] for axis {}",
                                 bias.shape.str(), x.shape.str(), x.shape[*axis], *axis))
        .with_hint(other_axis_hint(x.shape, bias.shape));
    return;
  }
  const int from_bias = bias.batch_axis == 0 ? *axis : bias.batch_axis;
  call.result(x.dtype, x.shape, common_batch(x.batch_axis, from_bias));
}

void infer_bias_add_grad(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return;
  const Operand& dy = call.operand(0);
  call.result(call.compute_dtype(), {dy.shape[*axis]}, batch_of_vector(dy.batch_axis, *axis),
              combined(dy.batch_axis, Combine::kSum));
}

AttributeSpec bias_axis() { return axis_attribute("1", "axis to add the bias along"); }

}  // namespace

std::vector<OpSpec> bias_add() {
  return {
      {.name = "bias_add",
       .doc = "Adds a bias vector along one axis.",
       .formula = "y[..., c, ...] = x[..., c, ...] + bias[c]",
       .operands = {{"x", "any shape that has the axis"}, {"bias", "(C), the size of the axis"}},
       .attributes = {bias_axis()},
       .normalize = normalize_axis,
       .infer = infer_bias_add,
       .in_place = {0},
       .elementwise = true,
       .linear_in_all = true,
       .epilogue = Epilogue::kBias,
       .numpy = "np.moveaxis(np.moveaxis(x, axis, -1) + bias, -1, axis)",
       .examples = {"bias_add(f32[3,4], f32[4])", "bias_add(f32[2,3,5,7], f32[3])",
                    "bias_add(f32[2,3,4], f32[4]) axis=-1", "bias_add(f32[5,2], f32[5]) axis=0"}},
      {.name = "bias_add_grad",
       .doc = "Gradient of bias_add with respect to the bias.",
       .formula = "dbias[c] = sum dy[..., c, ...]",
       .operands = {{.name = "dy", .doc = "any shape that has the axis", .low_precision = true}},
       .attributes = {bias_axis()},
       .normalize = normalize_axis,
       .infer = infer_bias_add_grad,
       .linear = {0},
       .gradient_of = Epilogue::kBias,
       .flops = {1, Flops::Each::kFirst},
       .internal = true,
       .examples = {"bias_add_grad(f32[3,4])", "bias_add_grad(f32[2,3,5,7])",
                    "bias_add_grad(f32[2,3,4]) axis=2", "bias_add_grad(f32[3000,5])"}},
  };
}

}  // namespace flow::ops
