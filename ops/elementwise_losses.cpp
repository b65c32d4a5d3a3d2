// Losses of one element each: differences between a prediction and a target, and the binary cross
// entropy.
#include <fmt/format.h>

#include "ops/broadcast.h"
#include "ops/families.h"

namespace flow::ops {
namespace {

/// Only a number is repeated: a target of another shape is mostly a mistake.
void infer_loss_element(Call& call) {
  if (!call.same_dtype()) return;
  const Shape &a = call.shape(0), &b = call.shape(1);
  if (a == b || a.rank() == 0 || b.rank() == 0)
    infer_broadcast(call);
  else
    call.bad_operand(
            1, Reason::kShapeMismatch,
            fmt::format("the operands are {} and {}; expected equal shapes", a.str(), b.str()))
        .with_hint("losses do not broadcast; use `reshape` to make the shapes equal");
}

void check_beta(Call& call) {
  if (const double beta = call.attribute<double>("beta"); !(beta > 0))
    call.bad_attribute("beta", Reason::kOutOfRange,
                       fmt::format("`beta` is {}; expected above 0", beta));
}

void infer_smooth_l1(Call& call) {
  check_beta(call);
  infer_loss_element(call);
}

AttributeSpec beta_attribute() {
  return {.name = "beta",
          .type = AttributeType::kNumber,
          .fallback = "1",
          .doc = "error above which the loss is linear, above 0"};
}

std::vector<PlanAttribute> in_plans(const std::vector<AttributeSpec>& attributes) {
  if (attributes.empty()) return {};
  return {{"beta", Kind::kFinite}};
}

OpSpec loss_spec(std::string_view name, std::string_view doc, std::string_view formula,
                 std::vector<AttributeSpec> attributes, std::vector<std::string_view> examples) {
  const InferRule infer = attributes.empty() ? infer_loss_element : infer_smooth_l1;
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"prediction", "any shape"}, {"target", "same shape, or a number"}},
          .attributes = attributes,
          .plan_attributes = in_plans(attributes),
          .infer = infer,
          .in_place = {0, 1},
          .examples = std::move(examples)};
}

OpSpec loss_grad_spec(std::string_view name, std::string_view formula,
                      std::vector<AttributeSpec> attributes) {
  return {.name = name,
          .doc = "Gradient of the loss in its name with respect to the prediction.",
          .formula = formula,
          .operands = {{"dy", "same shape as the loss"}, {"a", "prediction"}, {"b", "target"}},
          .attributes = attributes,
          .plan_attributes = in_plans(attributes),
          .infer = infer_broadcast,
          .in_place = {0, 1, 2},
          .internal = true};
}

}  // namespace

std::span<const OpSpec> elementwise_losses() {
  static const OpSpec kOps[] = {
      loss_spec("mse", "Squared error per element; `minimize` averages it.",
                "y = (prediction - target)^2", {},
                {"mse(f32[3,4], f32[3,4])", "mse(f32[3], f32[])", "mse(f32[], f32[3])"}),
      loss_grad_spec("mse_grad", "da = 2 dy (a - b)", {}),
      loss_spec("l1", "Absolute error per element; the gradient at 0 is 0.",
                "y = |prediction - target|", {}, {"l1(f32[3,4], f32[3,4])", "l1(f32[3], f32[])"}),
      loss_grad_spec("l1_grad", "da = dy sign(a - b)", {}),
      loss_spec(
          "smooth_l1",
          "Smooth L1 loss per element (Girshick, 2015): quadratic below `beta`, linear above.",
          "y = d < beta ? d^2 / (2 beta) : d - beta / 2, d = |prediction - target|",
          {beta_attribute()},
          {"smooth_l1(f32[3,4], f32[3,4])", "smooth_l1(f32[3,4], f32[3,4]) beta=0.3"}),
      loss_grad_spec("smooth_l1_grad", "da = dy clip((a - b) / beta, -1, 1)", {beta_attribute()}),
      {
          .name = "sigmoid_cross_entropy_with_logits",
          .doc = "Binary cross entropy per element, numerically stable for large logits; labels "
                 "are probabilities in [0, 1].",
          .formula = "y = -z ln s - (1 - z) ln(1 - s), s = sigmoid(logits), z = labels",
          .operands = {{"labels", "any shape"}, {"logits", "same shape, or a number"}},
          .infer = infer_loss_element,
          .in_place = {0, 1},
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
          .in_place = {0, 1, 2},
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::ops
