// Updates whose rate follows from norms of the whole variable: LARS, LAMB and Adafactor, which
// keeps means of squared gradients over rows and columns.
#include "ops/core/families.h"
#include "ops/optimizer/updates.h"

namespace flow::ops {
namespace {

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
      .infer = infer_update_of<1>,
      .flops = {8},
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
          .infer = infer_update_of<2>,
          .flops = {16},
          .internal = true};
}

/// The gradient, the variable and its mean squares are of one shape.
void infer_adafactor_update(Call& call) {
  if (fit_gradient(call, 3) && call.have_shape(3, call.operands(), {}))
    call.result(call.operand(0).dtype, call.operand(0).shape, kNoBatch);
}

OpSpec adafactor_mean() {
  return {
      .name = "adafactor_mean",
      .doc = "Moves a mean of squared gradients of Adafactor (Shazeer and Stern, 2018).",
      .formula = "mean = mean + t^beta2_decay (scale^2 square - mean)",
      .operands = {{"square", "mean of squared gradients"},
                   {"mean", "optimizer state, same shape as the square"},
                   {.name = "factor", .doc = "factor on the gradient, a scalar", .optional = true}},
      .attributes = {gradient_scale(),
                     required_number("beta2_decay", "exponent of the share of the square")},
      .plan_attributes = {{"beta2_decay", Kind::kFinite}, {"scale", Kind::kFinite}},
      .results = {{.name = "updated", .updates = size_t{1}}},
      .infer = infer_update_of<0>,
      .flops = {4},
      .internal = true};
}

OpSpec adafactor_update() {
  return {
      .name = "adafactor_update",
      .doc = "One step of Adafactor, by the mean square of each element.",
      .formula =
          "u = scale g / max(sqrt(V), epsilon1); w = w - lr weight_decay w - min(lr, 1 / sqrt(t)) "
          "max(epsilon2, |w|) u / max(1, |u| / clip_threshold), |x| = rms(x)",
      .operands = {{"gradient", "gradient of the summed loss"},
                   {"variable", "same shape as the gradient"},
                   {"mean_square", "V, same shape as the gradient"},
                   {.name = "factor", .doc = "factor on the gradient, a scalar", .optional = true}},
      .attributes = {gradient_scale(), rate_scale(),
                     required_number("epsilon1", "least root of a mean square"),
                     required_number("epsilon2", "least size of the variable"),
                     required_number("clip_threshold", "largest root mean square of updates"),
                     weight_decay()},
      .plan_attributes = {{"clip_threshold", Kind::kMagnitude},
                          {"epsilon1", Kind::kMagnitude},
                          {"epsilon2", Kind::kMagnitude},
                          {"rate_scale", Kind::kMagnitude},
                          {"scale", Kind::kFinite},
                          {"weight_decay", Kind::kFinite}},
      .results = {{.name = "updated", .updates = size_t{1}}},
      .infer = infer_adafactor_update,
      .flops = {12},
      .internal = true};
}

}  // namespace

std::span<const OpSpec> layerwise_updates() {
  static const OpSpec kOps[] = {
      lars_update(),
      lamb_update(),
      adafactor_mean(),
      adafactor_update(),
  };
  return kOps;
}

}  // namespace flow::ops
