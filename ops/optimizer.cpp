// Updates of variables, and what is done to gradients before. Learning rates come from the
// schedule, at each step, times rate_scale: lr; t is the step counted from 1.
#include <fmt/format.h>

#include "ops/families.h"

namespace flow::ops {
namespace {

/// Reports operands up to `count` that are not of the first one's shape.
bool fit_gradient(Call& call, size_t count) {
  const Operand& gradient = call.operand(0);
  for (size_t i = 1; i < count; ++i) {
    const Operand& other = call.operand(i);
    if (other.shape != gradient.shape)
      call.bad_operand(
          i, Reason::kShapeMismatch,
          fmt::format("{} {} for a gradient {} {}", name_of(other.dtype), other.shape.str(),
                      name_of(gradient.dtype), gradient.shape.str()));
  }
  return !call.failed();
}

/// A variable and kSlots slots get new values; what may follow is the factor that clips.
template <size_t kSlots>
void infer_update(Call& call) {
  constexpr size_t kAlike = 2 + kSlots;
  fit_gradient(call, kAlike);
  if (call.operands() > kAlike && call.shape(kAlike).rank() > 0)
    call.bad_operand(kAlike, Reason::kShapeMismatch,
                     fmt::format("a factor {}", call.shape(kAlike).str()));
  if (call.failed()) return;
  const Operand& gradient = call.operand(0);
  for (size_t i = 1; i < kAlike; ++i) call.result(gradient.dtype, gradient.shape, kNoBatch);
}

void infer_regularize(Call& call) {
  if (fit_gradient(call, 2)) infer_like_operand(call);
}

void infer_clip_factor(Call& call) {
  if (const auto norm = call.attribute<double>("clip_norm"); norm <= 0) {
    call.bad_attribute("clip_norm", Reason::kOutOfRange,
                       fmt::format("`clip_norm` is {}; expected a positive number", norm));
    return;
  }
  call.result(call.compute_dtype(), {}, kBatchReduced);
}

void infer_unscale_factor(Call& call) {
  if (call.have_shape(0, 1, {})) call.result(call.compute_dtype(), {}, kBatchReduced);
}

void infer_move_loss_scale(Call& call) {
  if (!call.have_shape(0, 3, {})) return;
  for (int i = 0; i < 2; ++i) call.result(call.compute_dtype(), {}, kNoBatch);
}

AttributeSpec required_number(std::string_view name, std::string_view doc) {
  return {name, AttributeType::kNumber, "", doc};
}

AttributeSpec gradient_scale() {
  return {"scale", AttributeType::kNumber, "1",
          "factor on the gradient: 1 / number of loss elements"};
}

AttributeSpec rate_scale() {
  return {"rate_scale", AttributeType::kNumber, "1", "factor on the learning rate"};
}

AttributeSpec weight_decay() {
  return {"weight_decay", AttributeType::kNumber, "0", "weight decay coefficient"};
}

AttributeSpec update_epsilon() {
  return required_number("epsilon", "added to the denominator for numerical stability");
}
AttributeSpec beta1() { return required_number("beta1", "decay rate of m"); }
AttributeSpec beta2() { return required_number("beta2", "decay rate of v"); }
AttributeSpec decay_rate() {
  return required_number("decay_rate", "decay rate of the moving averages");
}

/// The gradient, the variable, its slots, the factor.
std::vector<OperandSpec> with_slots(const std::vector<std::string_view>& slots) {
  std::vector<OperandSpec> operands{{"gradient", "gradient of the summed loss"},
                                    {"variable", "same shape as the gradient"}};
  for (const std::string_view slot : slots)
    operands.push_back({slot, "optimizer state, same shape as the gradient"});
  operands.push_back(
      {.name = "factor", .doc = "factor on the gradient, a scalar", .optional = true});
  return operands;
}

/// The new values of the variable and its slots.
std::vector<ResultSpec> updated_with(const std::vector<std::string_view>& slots) {
  std::vector<ResultSpec> results{{.name = "updated", .updates = size_t{1}}};
  for (const std::string_view slot : slots)
    results.push_back({.name = slot, .updates = results.size() + 1});
  return results;
}

OpSpec sgd_update() {
  return {.name = "sgd_update",
          .doc = "One step of gradient descent.",
          .formula = "w = w + (-lr scale) g, the factor rounded once",
          .operands = with_slots({}),
          .attributes = {gradient_scale(), rate_scale()},
          .plan_attributes = {{"rate_scale", Kind::kMagnitude}, {"scale", Kind::kFinite}},
          .results = updated_with({}),
          .infer = infer_update<0>,
          .internal = true};
}

OpSpec momentum_update() {
  return {.name = "momentum_update",
          .doc = "One step of gradient descent with momentum.",
          .formula =
              "m = momentum m + scale g; w = w - lr m - lr weight_decay w (nesterov: lr "
              "(scale g + momentum m))",
          .operands = with_slots({"momentum"}),
          .attributes = {gradient_scale(),
                         rate_scale(),
                         required_number("momentum", "momentum coefficient"),
                         {"nesterov", AttributeType::kBool, "false", "use Nesterov momentum"},
                         weight_decay()},
          .plan_attributes = {{"momentum", Kind::kFinite},
                              {"nesterov", Kind::kFlag},
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite},
                              {"weight_decay", Kind::kFinite}},
          .results = updated_with({"momentum"}),
          .infer = infer_update<1>,
          .internal = true};
}

OpSpec adam_update() {
  return {.name = "adam_update",
          .doc = "One step of Adam (Kingma and Ba, 2015).",
          .formula =
              "m = beta1 m + (1 - beta1) scale g; v = beta2 v + (1 - beta2) (scale g)^2; w "
              "= w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) - lr "
              "weight_decay w",
          .operands = with_slots({"m", "v"}),
          .attributes = {gradient_scale(),
                         rate_scale(),
                         beta1(),
                         beta2(),
                         update_epsilon(),
                         {"bias_correction", AttributeType::kBool, "true",
                          "correct m and v for their start at zero"},
                         weight_decay()},
          .plan_attributes = {{"beta1", Kind::kFraction},
                              {"beta2", Kind::kFraction},
                              {"bias_correction", Kind::kFlag},
                              {"epsilon", Kind::kFinite},
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite},
                              {"weight_decay", Kind::kFinite}},
          .results = updated_with({"m", "v"}),
          .infer = infer_update<2>,
          .internal = true};
}

OpSpec rmsprop_update() {
  return {.name = "rmsprop_update",
          .doc = "One step of RMSprop (Tieleman and Hinton, 2012).",
          .formula =
              "ms = decay_rate ms + (1 - decay_rate) (scale g)^2; w = w - lr scale g / "
              "sqrt(ms + epsilon)",
          .operands = with_slots({"ms"}),
          .attributes = {gradient_scale(), rate_scale(), decay_rate(), update_epsilon()},
          .plan_attributes = {{"decay_rate", Kind::kFraction},
                              {"epsilon", Kind::kFinite},
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite}},
          .results = updated_with({"ms"}),
          .infer = infer_update<1>,
          .internal = true};
}

OpSpec centered_rmsprop_update() {
  return {.name = "centered_rmsprop_update",
          .doc = "One step of centered RMSprop: by the variance of the gradients.",
          .formula =
              "ms as in rmsprop_update; mg = decay_rate mg + (1 - decay_rate) scale g; w = w "
              "- lr scale g / sqrt(ms - mg^2 + epsilon)",
          .operands = with_slots({"ms", "mg"}),
          .attributes = {gradient_scale(), rate_scale(), decay_rate(), update_epsilon()},
          .plan_attributes = {{"decay_rate", Kind::kFraction},
                              {"epsilon", Kind::kFinite},
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite}},
          .results = updated_with({"ms", "mg"}),
          .infer = infer_update<2>,
          .internal = true};
}

OpSpec lars_update() {
  return {
      .name = "lars_update",
      .doc = "One step of LARS (You et al., 2017).",
      .formula =
          "r = lr lars_coefficient |w| / (|scale g| + weight_decay |w| + epsilon), lr where a norm "
          "is 0;\nm = momentum_beta m - r (scale g + weight_decay w); w = w + m, norms as root "
          "mean squares",
      .operands = with_slots({"momentum"}),
      .attributes = {gradient_scale(), rate_scale(),
                     required_number("momentum_beta", "momentum coefficient"), update_epsilon(),
                     required_number("lars_coefficient", "trust coefficient on the norm ratio"),
                     weight_decay()},
      .plan_attributes = {{"epsilon", Kind::kFinite},
                          {"lars_coefficient", Kind::kFinite},
                          {"momentum_beta", Kind::kFinite},
                          {"rate_scale", Kind::kMagnitude},
                          {"scale", Kind::kFinite},
                          {"weight_decay", Kind::kFinite}},
      .results = updated_with({"momentum"}),
      .infer = infer_update<1>,
      .internal = true};
}

OpSpec lamb_update() {
  return {.name = "lamb_update",
          .doc = "One step of LAMB (You et al., 2020).",
          .formula =
              "m, v as in adam_update; a = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + "
              "epsilon) + weight_decay w;\nw = w - lr (|w| / |a|) a, ratio 1 where a norm is 0",
          .operands = with_slots({"m", "v"}),
          .attributes = {gradient_scale(), rate_scale(), beta1(), beta2(), update_epsilon(),
                         weight_decay()},
          .plan_attributes = {{"beta1", Kind::kFraction},
                              {"beta2", Kind::kFraction},
                              {"epsilon", Kind::kFinite},
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite},
                              {"weight_decay", Kind::kFinite}},
          .results = updated_with({"m", "v"}),
          .infer = infer_update<2>,
          .internal = true};
}

OpSpec regularize() {
  return {.name = "regularize",
          .doc = "Adds the gradient of a regularizer.",
          .formula = "g + l1 sign(w) + l2 w",
          .operands = {{"gradient", "gradient of the summed loss"},
                       {"variable", "same shape as the gradient"}},
          .attributes = {required_number("l1", "L1 or L2 coefficient, unscaled like the gradient"),
                         required_number("l2", "L1 or L2 coefficient, unscaled like the gradient")},
          .plan_attributes = {{"l1", Kind::kFinite}, {"l2", Kind::kFinite}},
          .results = {{"regularized"}},
          .infer = infer_regularize,
          .in_place = {0},
          .elementwise = true,
          .internal = true};
}

OpSpec clip_factor() {
  return {
      .name = "clip_factor",
      .doc = "Factor that limits the global norm of all gradients.",
      .formula = "min(1, clip_norm / |scale g|), the norm over all g",
      .operands = {{.name = "gradients", .doc = "gradient of the summed loss", .variadic = true}},
      .attributes = {required_number("clip_norm", "largest global norm"), gradient_scale()},
      .plan_attributes = {{"clip_norm", Kind::kFinite}, {"scale", Kind::kFinite}},
      .results = {{"factor"}},
      .infer = infer_clip_factor,
      .internal = true};
}

OpSpec unscale_factor() {
  return {
      .name = "unscale_factor",
      .doc = "Factor that undoes the loss scale and clips; NaN if a gradient is not finite.",
      .formula = "min(1, clip_norm / |scale g / loss_scale|) / loss_scale; clip_norm 0: no clip",
      .operands = {{"loss_scale", "a scalar"},
                   {.name = "gradients", .doc = "gradients of the scaled loss", .variadic = true}},
      .attributes = {required_number("clip_norm", "largest global norm; 0 disables clipping"),
                     gradient_scale()},
      .plan_attributes = {{"clip_norm", Kind::kMagnitude}, {"scale", Kind::kFinite}},
      .results = {{"factor"}},
      .infer = infer_unscale_factor,
      .internal = true};
}

OpSpec move_loss_scale() {
  return {.name = "move_loss_scale",
          .doc = "Loss scale of the next step.",
          .formula =
              "scale backoff_factor if the factor is NaN; scale growth_factor after "
              "growth_interval steps without NaN; within the normal float32 range",
          .operands = {{"factor", "NaN if a gradient was not finite"},
                       {"loss_scale", "a scalar"},
                       {"finite_steps", "finite steps since the last change"}},
          .attributes = {required_number("backoff_factor", "factor to shrink by"),
                         required_number("growth_factor", "factor to grow by"),
                         required_number("growth_interval", "finite steps before the scale grows")},
          .plan_attributes = {{"backoff_factor", Kind::kFinite},
                              {"growth_factor", Kind::kFinite},
                              {"growth_interval", Kind::kFinite}},
          .results = updated_with({"finite_steps"}),
          .infer = infer_move_loss_scale,
          .internal = true};
}

}  // namespace

std::span<const OpSpec> optimizer() {
  static const OpSpec kOps[] = {sgd_update(),
                                momentum_update(),
                                adam_update(),
                                rmsprop_update(),
                                centered_rmsprop_update(),
                                lars_update(),
                                lamb_update(),
                                regularize(),
                                clip_factor(),
                                unscale_factor(),
                                move_loss_scale()};
  return kOps;
}

}  // namespace flow::ops
