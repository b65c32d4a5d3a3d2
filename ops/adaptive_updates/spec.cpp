// Updates of variables by gradients that their own history or their sign scales, element by
// element.
#include "ops/core/families.h"
#include "ops/optimizer/updates.h"

namespace flow::ops {
namespace {

/// The record of an update with kSlots slots. `attributes`: what only this optimizer has.
template <size_t kSlots>
OpSpec update_spec(std::string_view name, std::string_view doc, std::string_view formula,
                   const std::vector<std::string_view>& slots,
                   const std::vector<AttributeSpec>& attributes,
                   std::vector<PlanAttribute> in_plans, double flops) {
  OpSpec spec{.name = name,
              .doc = doc,
              .formula = formula,
              .operands = with_slots(slots),
              .attributes = {gradient_scale(), rate_scale()},
              .plan_attributes = std::move(in_plans),
              .results = updated_with(slots),
              .infer = infer_update_of<kSlots>,
              .flops = {flops},
              .internal = true};
  spec.attributes.insert(spec.attributes.end(), attributes.begin(), attributes.end());
  spec.plan_attributes.push_back({"rate_scale", Kind::kMagnitude});
  spec.plan_attributes.push_back({"scale", Kind::kFinite});
  return spec;
}

OpSpec adagrad_update() {
  return update_spec<1>("adagrad_update", "One step of Adagrad (Duchi et al., 2011).",
                        "sum = sum + (scale g)^2; w = w - lr scale g / (sqrt(sum) + epsilon)",
                        {"sum"}, {update_epsilon()}, {{"epsilon", Kind::kFinite}, l2_in_plans()},
                        7);
}

OpSpec sparse_adagrad_update() {
  OpSpec spec = sparse_update("sparse_adagrad_update", adagrad_update(), infer_sparse_update_of<1>);
  spec.doc = "One step of Adagrad for the rows of a sparse gradient.";
  return spec;
}

OpSpec adadelta_update() {
  return update_spec<2>(
      "adadelta_update", "One step of Adadelta (Zeiler, 2012).",
      "square = decay_rate square + (1 - decay_rate) (scale g)^2; d = sqrt(delta + epsilon) / "
      "sqrt(square + epsilon) scale g; delta = decay_rate delta + (1 - decay_rate) d^2; w = w - lr "
      "d",
      {"square", "delta"},
      {required_number("decay_rate", "decay rate of the moving averages"), update_epsilon()},
      {{"decay_rate", Kind::kFraction}, {"epsilon", Kind::kFinite}, l2_in_plans()}, 15);
}

OpSpec nadam_update() {
  return update_spec<2>(
      "nadam_update", "One step of Nadam (Dozat, 2016).",
      "m, v as in adam_update; u_t = beta1 (1 - 0.96^(t momentum_decay) / 2), p_t = u_1 ... u_t; w "
      "= w - lr ((1 - u_t) / (1 - p_t) scale g + u_t+1 / (1 - p_t+1) m) / (sqrt(v / (1 - "
      "beta2^t)) + epsilon) - lr weight_decay w",
      {"m", "v"},
      {beta1(), beta2(), update_epsilon(),
       required_number("momentum_decay", "rate at which the momentum grows to beta1"),
       weight_decay()},
      {{"beta1", Kind::kFraction},
       {"beta2", Kind::kFraction},
       {"epsilon", Kind::kFinite},
       l2_in_plans(),
       {"momentum_decay", Kind::kMagnitude},
       {"weight_decay", Kind::kFinite}},
      15);
}

OpSpec radam_update() {
  return update_spec<2>(
      "radam_update", "One step of rectified Adam (Liu et al., 2020).",
      "m, v as in adam_update; a = 2 / (1 - beta2) - 1, l = a - 2 t beta2^t / (1 - beta2^t);\n"
      "r = sqrt((l - 4) (l - 2) a / ((a - 4) (a - 2) l)) sqrt(1 - beta2^t) / (sqrt(v) + epsilon) "
      "where l > 5, else 1;\nw = w - lr m / (1 - beta1^t) r - lr weight_decay w",
      {"m", "v"}, {beta1(), beta2(), update_epsilon(), weight_decay()},
      {{"beta1", Kind::kFraction},
       {"beta2", Kind::kFraction},
       {"epsilon", Kind::kFinite},
       l2_in_plans(),
       {"weight_decay", Kind::kFinite}},
      12);
}

OpSpec lion_update() {
  return update_spec<1>(
      "lion_update", "One step of Lion (Chen et al., 2023).",
      "w = w - lr sign(beta1 m + (1 - beta1) scale g) - lr weight_decay w; m = beta2 m + (1 - "
      "beta2) scale g",
      {"m"},
      {required_number("beta1", "share of m in the sign"),
       required_number("beta2", "decay rate of m"), weight_decay()},
      {{"beta1", Kind::kFraction}, {"beta2", Kind::kFraction}, {"weight_decay", Kind::kFinite}},
      10);
}

OpSpec ftrl_update() {
  return update_spec<2>(
      "ftrl_update", "One step of FTRL-Proximal (McMahan et al., 2013).",
      "n' = n + (scale g)^2; z = z + scale g - (sqrt(n') - sqrt(n)) / lr w; n = n';\nw = 0 where "
      "|z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / lr + l2); nothing where 1 / lr is "
      "not finite",
      {"n", "z"},
      {required_number("beta", "added to the root of n"), required_number("l1", "L1 strength"),
       required_number("l2", "L2 strength")},
      {{"beta", Kind::kMagnitude}, {"l1", Kind::kMagnitude}, {"l2", Kind::kMagnitude}}, 15);
}

}  // namespace

std::span<const OpSpec> adaptive_updates() {
  static const OpSpec kOps[] = {adagrad_update(), sparse_adagrad_update(), adadelta_update(),
                                nadam_update(),   radam_update(),          lion_update(),
                                ftrl_update()};
  return kOps;
}

}  // namespace flow::ops
