// Updates of variables, element by element.
#include "ops/core/families.h"
#include "ops/optimizer/updates.h"

namespace flow::ops {
namespace {

AttributeSpec decay_rate() {
  return required_number("decay_rate", "decay rate of the moving averages");
}

OpSpec sgd_update() {
  return {.name = "sgd_update",
          .doc = "One step of gradient descent.",
          .formula = "w = w + (-lr scale) g, the factor rounded once",
          .operands = with_slots({}),
          .attributes = {gradient_scale(), rate_scale()},
          .plan_attributes = {l2_in_plans(),
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite}},
          .results = updated_with({}),
          .infer = infer_update_of<0>,
          .epilogue = Epilogue::kUpdate,
          .flops = {2},
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
          .plan_attributes = {l2_in_plans(),
                              {"momentum", Kind::kFinite},
                              {"nesterov", Kind::kFlag},
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite},
                              {"weight_decay", Kind::kFinite}},
          .results = updated_with({"momentum"}),
          .infer = infer_update_of<1>,
          .flops = {4},
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
                              l2_in_plans(),
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite},
                              {"weight_decay", Kind::kFinite}},
          .results = updated_with({"m", "v"}),
          .infer = infer_update_of<2>,
          .flops = {12},
          .internal = true};
}

OpSpec amsgrad_update() {
  const std::vector<std::string_view> slots{"m", "v", "v_max"};
  OpSpec spec = adam_update();
  spec.name = "amsgrad_update";
  spec.doc = "One step of AMSGrad (Reddi et al., 2018).";
  spec.formula = "as adam_update, with v_max = max(v_max, v) in the place of v in the root";
  spec.operands = with_slots(slots);
  spec.results = updated_with(slots);
  spec.infer = infer_update_of<3>;
  spec.flops = {13};
  return spec;
}

OpSpec sparse_sgd_update() {
  OpSpec spec = sparse_update("sparse_sgd_update", sgd_update(), infer_sparse_update_of<0>);
  spec.doc = "One step of gradient descent for the rows of a sparse gradient.";
  return spec;
}

/// As PyTorch's SparseAdam.
OpSpec sparse_adam_update() {
  OpSpec spec = sparse_update("sparse_adam_update", adam_update(), infer_sparse_update_of<2>);
  spec.doc =
      "One step of lazy Adam for the rows of a sparse gradient: m and v of other rows do not "
      "decay.";
  spec.formula =
      "m, v as in adam_update; w = w - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + "
      "epsilon)";
  return spec;
}

/// `slots`: ms, the mean square, and what else the update moves.
template <size_t kSlots>
OpSpec rmsprop_like(std::string_view name, std::string_view doc, std::string_view formula,
                    const std::vector<std::string_view>& slots, double flops) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = with_slots(slots),
          .attributes = {gradient_scale(), rate_scale(), decay_rate(), update_epsilon()},
          .plan_attributes = {{"decay_rate", Kind::kFraction},
                              {"epsilon", Kind::kFinite},
                              {.name = "epsilon_inside", .kind = Kind::kFlag, .optional = true},
                              l2_in_plans(),
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite}},
          .results = updated_with(slots),
          .infer = infer_update_of<kSlots>,
          .flops = {flops},
          .internal = true};
}

OpSpec rmsprop_update() {
  return rmsprop_like<1>("rmsprop_update", "One step of RMSprop (Tieleman and Hinton, 2012).",
                         "ms = decay_rate ms + (1 - decay_rate) (scale g)^2; w = w - lr scale g / "
                         "sqrt(ms + epsilon) (epsilon_inside false: / (sqrt(ms) + epsilon))",
                         {"ms"}, 9);
}

OpSpec centered_rmsprop_update() {
  return rmsprop_like<2>("centered_rmsprop_update",
                         "One step of centered RMSprop: by the variance of the gradients.",
                         "ms as in rmsprop_update; mg = decay_rate mg + (1 - decay_rate) scale g; "
                         "w = w - lr scale g / sqrt(ms - mg^2 + epsilon)",
                         {"ms", "mg"}, 12);
}

OpSpec with_momentum(OpSpec rmsprop) {
  rmsprop.attributes.push_back(required_number("momentum", "momentum coefficient"));
  rmsprop.plan_attributes.push_back({"momentum", Kind::kMagnitude});
  return rmsprop;
}

OpSpec momentum_rmsprop_update() {
  return with_momentum(rmsprop_like<2>(
      "momentum_rmsprop_update", "One step of RMSprop with momentum.",
      "ms as in rmsprop_update; momentum = momentum momentum + scale g / sqrt(ms + epsilon); w = w "
      "- lr momentum",
      {"ms", "momentum"}, 11));
}

OpSpec centered_momentum_rmsprop_update() {
  return with_momentum(rmsprop_like<3>(
      "centered_momentum_rmsprop_update", "One step of centered RMSprop with momentum.",
      "ms, mg as in centered_rmsprop_update; momentum = momentum momentum + scale g / sqrt(ms - "
      "mg^2 + epsilon); w = w - lr momentum",
      {"ms", "mg", "momentum"}, 14));
}

}  // namespace

std::span<const OpSpec> optimizer() {
  static const OpSpec kOps[] = {sgd_update(),
                                sparse_sgd_update(),
                                momentum_update(),
                                adam_update(),
                                sparse_adam_update(),
                                amsgrad_update(),
                                rmsprop_update(),
                                centered_rmsprop_update(),
                                momentum_rmsprop_update(),
                                centered_momentum_rmsprop_update()};
  return kOps;
}

}  // namespace flow::ops
