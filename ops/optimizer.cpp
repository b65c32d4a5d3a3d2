// Updates of variables, element by element.
#include "ops/families.h"
#include "ops/updates.h"

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
          .plan_attributes = {{"rate_scale", Kind::kMagnitude}, {"scale", Kind::kFinite}},
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
          .plan_attributes = {{"momentum", Kind::kFinite},
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
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite},
                              {"weight_decay", Kind::kFinite}},
          .results = updated_with({"m", "v"}),
          .infer = infer_update_of<2>,
          .flops = {12},
          .internal = true};
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
          .infer = infer_update_of<1>,
          .flops = {9},
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
          .infer = infer_update_of<2>,
          .flops = {12},
          .internal = true};
}

}  // namespace

std::span<const OpSpec> optimizer() {
  static const OpSpec kOps[] = {
      sgd_update(),         sparse_sgd_update(), momentum_update(),        adam_update(),
      sparse_adam_update(), rmsprop_update(),    centered_rmsprop_update()};
  return kOps;
}

}  // namespace flow::ops
