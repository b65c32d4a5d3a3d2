// Losses of one element each: differences between a prediction and a target, and the binary cross
// entropy.
#include <fmt/format.h>

#include "compiler/grad/broadcast.h"
#include "compiler/ops/broadcast.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

using ir::ValueId;

/// Nothing is repeated but a number: a target of another shape is mostly a mistake.
void infer_difference(Inference& inference) {
  const Shape &a = inference.shape(0), &b = inference.shape(1);
  if (a == b || a.rank() == 0 || b.rank() == 0)
    infer_broadcast(inference);
  else
    inference
        .bad_operand(
            1, Diagnosis::kShapeMismatch,
            fmt::format("the operands are {} and {}; expected equal shapes", a.str(), b.str()))
        .with_hint("losses do not broadcast; use `reshape` to make the shapes equal");
}

void infer_smooth(Inference& inference) {
  if (const double beta = inference.attribute<double>("beta"); !(beta > 0))
    inference.bad_attribute("beta", Diagnosis::kOutOfRange,
                            fmt::format("`beta` is {}; expected above 0", beta));
  infer_difference(inference);
}

/// The gradient op named after the loss, with its attributes, for operand i.
ValueId add_grad(GradientContext& context, size_t i, std::string_view op, std::string_view part) {
  return context.add(op, i, {context.gradient(), context.operand(0), context.operand(1)},
                     context.node.attributes, part);
}

/// A function of a - b: what one operand gets, the other loses.
std::vector<ValueId> difference_gradient(GradientContext& context) {
  const std::string op = fmt::format("{}_grad", context.node.op->name);
  std::vector<ValueId> gradients(2);
  const size_t first = context.wanted[0] ? 0 : 1;
  const ValueId all = add_grad(context, first, op, op);
  if (context.wanted[0]) gradients[0] = sum_to_operand(context, 0, all);
  if (context.wanted[1])
    gradients[1] = sum_to_operand(context, 1, context.add("negative", 1, {all}, {}, "negative"));
  return gradients;
}

std::vector<ValueId> sigmoid_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(2);
  if (context.wanted[0]) {
    const ValueId product =
        context.add("multiply", 0, {context.gradient(), context.operand(1)}, {}, "multiply");
    gradients[0] =
        sum_to_operand(context, 0, context.add("negative", 0, {product}, {}, "negative"));
  }
  constexpr std::string_view kGrad = "sigmoid_cross_entropy_with_logits_grad";
  if (context.wanted[1])
    gradients[1] = sum_to_operand(context, 1, add_grad(context, 1, kGrad, "cross_entropy_grad"));
  return gradients;
}

AttributeDef beta() {
  return {.name = "beta",
          .type = AttributeType::kNumber,
          .fallback = "1",
          .doc = "error above which the loss is linear, above 0"};
}

OpDef loss_of(std::string_view name, std::string_view doc, std::string_view formula,
              std::vector<AttributeDef> attributes, std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"prediction", "any shape"}, {"target", "same shape, or a number"}},
          .attributes = std::move(attributes),
          .infer = name == "smooth_l1" ? infer_smooth : infer_difference,
          .gradient = difference_gradient,
          .examples = std::move(examples)};
}

OpDef grad_of(std::string_view name, std::string_view formula,
              std::vector<AttributeDef> attributes) {
  return {.name = name,
          .doc = "Gradient of the loss in its name with respect to the prediction.",
          .formula = formula,
          .operands = {{"dy", "same shape as the loss"}, {"a", "prediction"}, {"b", "target"}},
          .attributes = std::move(attributes),
          .infer = infer_broadcast,
          .internal = true};
}

}  // namespace

std::span<const OpDef> differences() {
  static const OpDef kOps[] = {
      loss_of("mse", "Squared error per element; `minimize` averages it.",
              "y = (prediction - target)^2", {},
              {"mse(f32[3,4], f32[3,4])", "mse(f32[3], f32[])", "mse(f32[], f32[3])"}),
      grad_of("mse_grad", "da = 2 dy (a - b)", {}),
      loss_of("l1", "Absolute error per element; the gradient at 0 is 0.",
              "y = |prediction - target|", {}, {"l1(f32[3,4], f32[3,4])", "l1(f32[3], f32[])"}),
      grad_of("l1_grad", "da = dy sign(a - b)", {}),
      loss_of("smooth_l1",
              "Smooth L1 loss per element (Girshick, 2015): quadratic below `beta`, linear above.",
              "y = d < beta ? d^2 / (2 beta) : d - beta / 2, d = |prediction - target|", {beta()},
              {"smooth_l1(f32[3,4], f32[3,4])", "smooth_l1(f32[3,4], f32[3,4]) beta=0.3"}),
      grad_of("smooth_l1_grad", "da = dy clip((a - b) / beta, -1, 1)", {beta()}),
      {
          .name = "sigmoid_cross_entropy_with_logits",
          .doc = "Binary cross entropy per element, numerically stable for large logits; labels "
                 "are probabilities in [0, 1].",
          .formula = "y = -z ln s - (1 - z) ln(1 - s), s = sigmoid(logits), z = labels",
          .operands = {{"labels", "any shape"}, {"logits", "same shape, or a number"}},
          .infer = infer_difference,
          .gradient = sigmoid_gradient,
          .examples = {"sigmoid_cross_entropy_with_logits(f32[3,4], f32[3,4])",
                       "sigmoid_cross_entropy_with_logits(f32[], f32[3])"},
      },
      {
          .name = "sigmoid_cross_entropy_with_logits_grad",
          .doc = "Gradient of the loss with respect to the logits.",
          .formula = "dlogits = dy (sigmoid(logits) - labels)",
          .operands = {{"dy", "same shape as the loss"},
                       {"labels", "labels"},
                       {"logits", "logits"}},
          .infer = infer_broadcast,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::defs
