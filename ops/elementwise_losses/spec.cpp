// Losses of one element each, the rows of binary.def: differences between a prediction and a
// target, and the binary cross entropy.
#include <fmt/format.h>

#include "ops/core/broadcast.h"
#include "ops/core/families.h"

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

/// What a loss and its gradient share, and what they call their operands.
struct LossParameters {
  std::vector<OperandSpec> operands, grad_operands;
  std::string_view grad_doc;
  std::vector<AttributeSpec> attributes = {};
  std::vector<PlanAttribute> in_plans = {};
  InferRule infer = infer_loss_element;
};

LossParameters difference() {
  return {{{"prediction", "any shape"}, {"target", "same shape, or a number"}},
          {{"dy", "same shape as the loss"}, {"a", "prediction"}, {"b", "target"}},
          "Gradient of the loss in its name with respect to the prediction."};
}

LossParameters smooth_difference() {
  LossParameters parameters = difference();
  parameters.attributes = {{.name = "beta",
                            .type = AttributeType::kNumber,
                            .fallback = "1",
                            .doc = "error above which the loss is linear, above 0"}};
  parameters.in_plans = {{"beta", Kind::kFinite}};
  parameters.infer = infer_smooth_l1;
  return parameters;
}

LossParameters binary_cross_entropy() {
  return {{{"labels", "any shape"}, {"logits", "same shape, or a number"}},
          {{"dy", "same shape as the loss"}, {"labels", "labels"}, {"logits", "logits"}},
          "Gradient of the loss with respect to the logits."};
}

OpSpec loss_spec(std::string_view name, LossParameters parameters, std::string_view doc,
                 std::string_view formula, std::string_view numpy,
                 std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = std::move(parameters.operands),
          .attributes = std::move(parameters.attributes),
          .plan_attributes = std::move(parameters.in_plans),
          .infer = parameters.infer,
          .in_place = {0, 1},
          .numpy = numpy,
          .examples = std::move(examples)};
}

OpSpec loss_grad_spec(std::string_view name, LossParameters parameters, std::string_view formula) {
  return {.name = name,
          .doc = parameters.grad_doc,
          .formula = formula,
          .operands = std::move(parameters.grad_operands),
          .attributes = std::move(parameters.attributes),
          .plan_attributes = std::move(parameters.in_plans),
          .infer = infer_broadcast,
          .in_place = {0, 1, 2},
          .linear = {0},
          .internal = true};
}

}  // namespace

std::span<const OpSpec> elementwise_losses() {
  static const OpSpec kOps[] = {
#define FLOW_LOSS(op, functor, parameters, doc, formula, numpy, grad_formula, ...) \
  loss_spec(#op, parameters, doc, formula, numpy, {__VA_ARGS__}),                  \
      loss_grad_spec(#op "_grad", parameters, grad_formula),
#include "ops/arithmetic/binary.def"
  };
  return kOps;
}

}  // namespace flow::ops
