// Adafactor: means of squared gradients over rows and columns, and updates by what they make of
// each element's mean square.
#include "ops/core/families.h"
#include "ops/optimizer/updates.h"

namespace flow::ops {
namespace {

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

std::span<const OpSpec> adafactor() {
  static const OpSpec kOps[] = {adafactor_mean(), adafactor_update()};
  return kOps;
}

}  // namespace flow::ops
