// Updates whose rate follows from the norms of a variable and of its gradient.
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

}  // namespace

std::span<const OpSpec> lars_lamb() {
  static const OpSpec kOps[] = {lars_update(), lamb_update()};
  return kOps;
}

}  // namespace flow::ops
