// Updates of variables by gradients that their own history or their sign scales, element by
// element.
#include "ops/core/families.h"
#include "ops/optimizer/updates.h"

namespace flow::ops {
namespace {

OpSpec adagrad_update() {
  return update_spec("adagrad_update", "One step of Adagrad (Duchi et al., 2011).",
                     "sum = sum + (scale g)^2; w = w - lr scale g / (sqrt(sum) + epsilon)", {"sum"},
                     {update_epsilon()}, 7, {l2_in_plans()});
}

OpSpec sparse_adagrad_update() {
  return sparse_update("sparse_adagrad_update",
                       "One step of Adagrad for the rows of a sparse gradient.", adagrad_update());
}

OpSpec adadelta_update() {
  return update_spec(
      "adadelta_update", "One step of Adadelta (Zeiler, 2012).",
      "square = decay_rate square + (1 - decay_rate) (scale g)^2; d = sqrt(delta + epsilon) / "
      "sqrt(square + epsilon) scale g; delta = decay_rate delta + (1 - decay_rate) d^2; w = w - lr "
      "d",
      {"square", "delta"}, {decay_rate(), update_epsilon()}, 15, {l2_in_plans()});
}

OpSpec nadam_update() {
  return update_spec(
      "nadam_update", "One step of Nadam (Dozat, 2016).",
      "m, v as in adam_update; u_t = beta1 (1 - 0.96^(t momentum_decay) / 2), p_t = u_1 ... u_t; w "
      "= w - lr ((1 - u_t) / (1 - p_t) scale g + u_t+1 / (1 - p_t+1) m) / (sqrt(v / (1 - "
      "beta2^t)) + epsilon) - lr weight_decay w",
      {"m", "v"},
      {beta1(), beta2(), update_epsilon(),
       required_magnitude("momentum_decay", "rate at which the momentum grows to beta1"),
       weight_decay()},
      15, {l2_in_plans()});
}

OpSpec radam_update() {
  return update_spec(
      "radam_update", "One step of rectified Adam (Liu et al., 2020).",
      "m, v as in adam_update; a = 2 / (1 - beta2) - 1, l = a - 2 t beta2^t / (1 - beta2^t);\n"
      "r = sqrt((l - 4) (l - 2) a / ((a - 4) (a - 2) l)) sqrt(1 - beta2^t) / (sqrt(v) + epsilon) "
      "where l > 5, else 1;\nw = w - lr m / (1 - beta1^t) r - lr weight_decay w",
      {"m", "v"}, {beta1(), beta2(), update_epsilon(), weight_decay()}, 12, {l2_in_plans()});
}

OpSpec lion_update() {
  return update_spec(
      "lion_update", "One step of Lion (Chen et al., 2023).",
      "w = w - lr sign(beta1 m + (1 - beta1) scale g) - lr weight_decay w; m = beta2 m + (1 - "
      "beta2) scale g",
      {"m"},
      {required_fraction("beta1", "share of m in the sign"),
       required_fraction("beta2", "decay rate of m"), weight_decay()},
      10);
}

OpSpec ftrl_update() {
  return update_spec(
      "ftrl_update", "One step of FTRL-Proximal (McMahan et al., 2013).",
      "n' = n + (scale g)^2; z = z + scale g - (sqrt(n') - sqrt(n)) / lr w; n = n';\nw = 0 where "
      "|z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / lr + l2); nothing where 1 / lr is "
      "not finite",
      {"n", "z"},
      {required_magnitude("beta", "added to the root of n"),
       required_magnitude("l1", "L1 strength"), required_magnitude("l2", "L2 strength")},
      15);
}

}  // namespace

std::vector<OpSpec> adaptive_updates() {
  return {adagrad_update(), sparse_adagrad_update(), adadelta_update(), nadam_update(),
          radam_update(),   lion_update(),           ftrl_update()};
}

}  // namespace flow::ops
