// Updates of variables, and what is done to gradients before. Learning rates come from the
// schedule, at each step, times rate_scale: lr; t is the step counted from 1.
#include <fmt/format.h>

#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

/// The operands up to `count` are of the first one's shape and dtype.
void check_alike(Inference& inference, size_t count) {
  const ir::Value& gradient = inference.operand(0);
  for (size_t i = 1; i < count; ++i) {
    const ir::Value& other = inference.operand(i);
    if (other.shape != gradient.shape || other.dtype != gradient.dtype)
      inference.bad_operand(
          i, Diagnosis::kShapeMismatch,
          fmt::format("{} {} for a gradient {} {}", name_of(other.dtype), other.shape.str(),
                      name_of(gradient.dtype), gradient.shape.str()));
  }
}

/// A variable and kSlots slots get new values; what may follow is the factor that clips.
template <size_t kSlots>
void infer_update(Inference& inference) {
  constexpr size_t kAlike = 2 + kSlots;
  check_alike(inference, kAlike);
  if (inference.operands() > kAlike && inference.shape(kAlike).rank() > 0)
    inference.bad_operand(kAlike, Diagnosis::kShapeMismatch,
                          fmt::format("a factor {}", inference.shape(kAlike).str()));
  if (inference.failed()) return;
  const ir::Value& gradient = inference.operand(0);
  for (size_t i = 1; i < kAlike; ++i) inference.result(gradient.dtype, gradient.shape, ir::kNoRows);
}

void infer_regularize(Inference& inference) {
  check_alike(inference, 2);
  if (inference.failed()) return;
  const ir::Value& gradient = inference.operand(0);
  inference.result(gradient.dtype, gradient.shape, gradient.rows);
}

void infer_clip_factor(Inference& inference) {
  inference.result(inference.operand(0).dtype, {}, ir::kMixedRows);
}

void infer_move_loss_scale(Inference& inference) {
  check_alike(inference, 3);
  if (inference.failed()) return;
  for (int i = 0; i < 2; ++i) inference.result(inference.number(), {}, ir::kNoRows);
}

AttributeDef number(std::string_view name, std::string_view doc) {
  return {name, AttributeType::kNumber, "", doc};
}

AttributeDef scale() {
  return {"scale", AttributeType::kNumber, "1",
          "factor on the gradient: 1 / number of loss elements"};
}

AttributeDef rate_scale() {
  return {"rate_scale", AttributeType::kNumber, "1", "factor on the learning rate"};
}

AttributeDef weight_decay() {
  return {"weight_decay", AttributeType::kNumber, "0", "weight decay coefficient"};
}

AttributeDef epsilon() {
  return number("epsilon", "added to the denominator for numerical stability");
}
AttributeDef beta1() { return number("beta1", "decay rate of m"); }
AttributeDef beta2() { return number("beta2", "decay rate of v"); }
AttributeDef decay_rate() { return number("decay_rate", "decay rate of the moving averages"); }

/// The gradient, the variable, its slots, the factor.
std::vector<OperandDef> with_slots(const std::vector<std::string_view>& slots) {
  std::vector<OperandDef> operands{{"gradient", "gradient of the summed loss"},
                                   {"variable", "same shape as the gradient"}};
  for (const std::string_view slot : slots)
    operands.push_back({slot, "optimizer state, same shape as the gradient"});
  operands.push_back(
      {.name = "factor", .doc = "factor on the gradient, a scalar", .optional = true});
  return operands;
}

OpDef sgd() {
  return {.name = "sgd_update",
          .doc = "One step of gradient descent.",
          .formula = "w = w + (-lr scale) g, the factor rounded once",
          .operands = with_slots({}),
          .attributes = {scale(), rate_scale()},
          .results = {"updated"},
          .infer = infer_update<0>,
          .internal = true};
}

OpDef momentum() {
  return {.name = "momentum_update",
          .doc = "One step of gradient descent with momentum.",
          .formula =
              "m = momentum m + scale g; w = w - lr m - lr weight_decay w (nesterov: lr "
              "(scale g + momentum m))",
          .operands = with_slots({"momentum"}),
          .attributes = {scale(),
                         rate_scale(),
                         number("momentum", "momentum coefficient"),
                         {"nesterov", AttributeType::kBool, "false", "use Nesterov momentum"},
                         weight_decay()},
          .results = {"updated", "momentum"},
          .infer = infer_update<1>,
          .internal = true};
}

OpDef adam() {
  return {.name = "adam_update",
          .doc = "One step of Adam (Kingma and Ba, 2015).",
          .formula =
              "m = beta1 m + (1 - beta1) scale g; v = beta2 v + (1 - beta2) (scale g)^2; w "
              "= w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) - lr "
              "weight_decay w",
          .operands = with_slots({"m", "v"}),
          .attributes = {scale(),
                         rate_scale(),
                         beta1(),
                         beta2(),
                         epsilon(),
                         {"bias_correction", AttributeType::kBool, "true",
                          "correct m and v for their start at zero"},
                         weight_decay()},
          .results = {"updated", "m", "v"},
          .infer = infer_update<2>,
          .internal = true};
}

OpDef rmsprop() {
  return {.name = "rmsprop_update",
          .doc = "One step of RMSprop (Tieleman and Hinton, 2012).",
          .formula =
              "ms = decay_rate ms + (1 - decay_rate) (scale g)^2; w = w - lr scale g / "
              "sqrt(ms + epsilon)",
          .operands = with_slots({"ms"}),
          .attributes = {scale(), rate_scale(), decay_rate(), epsilon()},
          .results = {"updated", "ms"},
          .infer = infer_update<1>,
          .internal = true};
}

OpDef centered_rmsprop() {
  return {.name = "centered_rmsprop_update",
          .doc = "One step of centered RMSprop: by the variance of the gradients.",
          .formula =
              "ms as in rmsprop_update; mg = decay_rate mg + (1 - decay_rate) scale g; w = w "
              "- lr scale g / sqrt(ms - mg^2 + epsilon)",
          .operands = with_slots({"ms", "mg"}),
          .attributes = {scale(), rate_scale(), decay_rate(), epsilon()},
          .results = {"updated", "ms", "mg"},
          .infer = infer_update<2>,
          .internal = true};
}

OpDef lars() {
  return {
      .name = "lars_update",
      .doc = "One step of LARS (You et al., 2017).",
      .formula =
          "r = lr lars_coefficient |w| / (|scale g| + weight_decay |w| + epsilon), lr where a norm "
          "is 0;\nm = momentum_beta m - r (scale g + weight_decay w); w = w + m, norms as root "
          "mean squares",
      .operands = with_slots({"momentum"}),
      .attributes = {scale(), rate_scale(), number("momentum_beta", "momentum coefficient"),
                     epsilon(), number("lars_coefficient", "trust coefficient on the norm ratio"),
                     weight_decay()},
      .results = {"updated", "momentum"},
      .infer = infer_update<1>,
      .internal = true};
}

OpDef lamb() {
  return {.name = "lamb_update",
          .doc = "One step of LAMB (You et al., 2020).",
          .formula =
              "m, v as in adam_update; a = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + "
              "epsilon) + weight_decay w;\nw = w - lr (|w| / |a|) a, ratio 1 where a norm is 0",
          .operands = with_slots({"m", "v"}),
          .attributes = {scale(), rate_scale(), beta1(), beta2(), epsilon(), weight_decay()},
          .results = {"updated", "m", "v"},
          .infer = infer_update<2>,
          .internal = true};
}

OpDef regularize() {
  return {.name = "regularize",
          .doc = "Adds the gradient of a regularizer.",
          .formula = "g + l1 sign(w) + l2 w",
          .operands = {{"gradient", "gradient of the summed loss"},
                       {"variable", "same shape as the gradient"}},
          .attributes = {number("l1", "L1 or L2 coefficient, unscaled like the gradient"),
                         number("l2", "L1 or L2 coefficient, unscaled like the gradient")},
          .results = {"regularized"},
          .infer = infer_regularize,
          .elementwise = true,
          .internal = true};
}

OpDef clip_factor() {
  return {
      .name = "clip_factor",
      .doc = "Factor that limits the global norm of all gradients.",
      .formula = "min(1, clip_norm / |scale g|), the norm over all g",
      .operands = {{.name = "gradients", .doc = "gradient of the summed loss", .variadic = true}},
      .attributes = {number("clip_norm", "largest global norm"), scale()},
      .results = {"factor"},
      .infer = infer_clip_factor,
      .internal = true};
}

OpDef unscale_factor() {
  return {
      .name = "unscale_factor",
      .doc = "Factor that undoes the loss scale and clips; NaN if a gradient is not finite.",
      .formula = "min(1, clip_norm / |scale g / loss_scale|) / loss_scale; clip_norm 0: no clip",
      .operands = {{"loss_scale", "a scalar"},
                   {.name = "gradients", .doc = "gradients of the scaled loss", .variadic = true}},
      .attributes = {number("clip_norm", "largest global norm; 0 disables clipping"), scale()},
      .results = {"factor"},
      .infer = infer_clip_factor,
      .internal = true};
}

OpDef move_loss_scale() {
  return {.name = "move_loss_scale",
          .doc = "Loss scale of the next step.",
          .formula =
              "scale backoff_factor if the factor is NaN; scale growth_factor after "
              "growth_interval steps without NaN; within the normal float32 range",
          .operands = {{"factor", "NaN if a gradient was not finite"},
                       {"loss_scale", "a scalar"},
                       {"finite_steps", "finite steps since the last change"}},
          .attributes = {number("backoff_factor", "factor to shrink by"),
                         number("growth_factor", "factor to grow by"),
                         number("growth_interval", "finite steps before the scale grows")},
          .results = {"updated", "finite_steps"},
          .infer = infer_move_loss_scale,
          .internal = true};
}

}  // namespace

std::span<const OpDef> optimizer() {
  static const OpDef kOps[] = {
      sgd(),  momentum(),   adam(),        rmsprop(),        centered_rmsprop(), lars(),
      lamb(), regularize(), clip_factor(), unscale_factor(), move_loss_scale()};
  return kOps;
}

}  // namespace flow::defs
