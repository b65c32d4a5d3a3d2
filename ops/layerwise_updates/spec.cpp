// Updates whose rate follows from norms of the whole variable: LARS, LAMB and Adafactor, which
// keeps means of squared gradients over rows and columns.
#include "ops/core/families.h"
#include "ops/optimizer/updates.h"

namespace flow::ops {
namespace {

OpSpec lars_update() {
  return update_spec(
      "lars_update", "One step of LARS (You et al., 2017).",
      "r = lr lars_coefficient |w| / (|scale g| + weight_decay |w| + epsilon), lr where a norm is "
      "0;\nm = momentum_beta m - r (scale g + weight_decay w); w = w + m, norms as root mean "
      "squares",
      {"momentum"},
      {required_number("momentum_beta", "momentum coefficient"), update_epsilon(),
       required_number("lars_coefficient", "trust coefficient on the norm ratio"), weight_decay()},
      8);
}

OpSpec lamb_update() {
  return update_spec(
      "lamb_update", "One step of LAMB (You et al., 2020).",
      "m, v as in adam_update; a = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + "
      "epsilon) + weight_decay w;\nw = w - lr (|w| / |a|) a, ratio 1 where a norm is 0",
      {"m", "v"}, {beta1(), beta2(), update_epsilon(), weight_decay()}, 16);
}

/// The gradient, the variable and its mean squares are of one shape.
void infer_adafactor_update(Call& call) {
  if (fit_gradient(call, 3) && call.have_shape(3, call.operands(), {}))
    call.result(call.operand(0).dtype, call.operand(0).shape, kNoBatch);
}

OpSpec adafactor_mean() {
  return {.name = "adafactor_mean",
          .doc = "Moves a mean of squared gradients of Adafactor (Shazeer and Stern, 2018).",
          .formula = "mean = mean + t^beta2_decay (scale^2 square - mean)",
          .operands = {{"square", "mean of squared gradients"},
                       {"mean", "optimizer state, same shape as the square"},
                       gradient_factor()},
          .attributes = {gradient_scale(),
                         required_number("beta2_decay", "exponent of the share of the square")},
          .results = updated_with({}),
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
                   gradient_factor()},
      .attributes = {gradient_scale(), rate_scale(),
                     required_magnitude("epsilon1", "least root of a mean square"),
                     required_magnitude("epsilon2", "least size of the variable"),
                     required_magnitude("clip_threshold", "largest root mean square of updates"),
                     weight_decay()},
      .results = updated_with({}),
      .infer = infer_adafactor_update,
      .flops = {12},
      .internal = true};
}

}  // namespace

std::vector<OpSpec> layerwise_updates() {
  return {
      lars_update(),
      lamb_update(),
      adafactor_mean(),
      adafactor_update(),
  };
}

}  // namespace flow::ops
