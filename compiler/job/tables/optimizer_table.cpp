// Optimizers, gradient clipping and loss scales, each with its keys.
#include "compiler/job/tables/optimizer_table.h"

#include "compiler/job/tables/key_makers.h"
#include "runtime/base/check.h"

namespace flow::job {
namespace {

const Bounds kPositive{.above = 0}, kShare{.min = 0, .max = 1}, kBelowOne{.min = 0, .below = 1};
const Bounds kScale{.min = 1e-37, .max = 1.7e38};  // as move_loss_scale keeps them

KeyDef momentum(std::string_view fallback) {
  return {"momentum", kNumber, fallback,
          "momentum coefficient: fraction of the last update to keep", kShare};
}

KeyDef epsilon(std::string_view fallback) {
  return {"epsilon", kNumber, fallback, "added to the denominator for numerical stability",
          kPositive};
}

KeyDef beta1() {
  return {"beta1", kNumber, "0.9", "decay rate of the moving average of gradients", kBelowOne};
}

KeyDef beta2() {
  return {"beta2", kNumber, "0.999", "decay rate of the moving average of squared gradients",
          kBelowOne};
}

KeyDef bias_correction() {
  return {"bias_correction", KeyType::kBool, "true", "correct m and v for their start at zero"};
}

/// Weight decay of chosen variables.
std::vector<KeyDef> with_decay(std::vector<KeyDef> keys, std::string_view fallback = "") {
  keys.push_back({"weight_decay", kNumber, fallback,
                  "weight decay coefficient; multiplied by the learning rate", kNotNegative});
  keys.push_back({"includes", KeyType::kGlobs, "none",
                  "variables to decay: a name or glob, or a list; default: all"});
  keys.push_back({.name = "excludes",
                  .type = KeyType::kGlobs,
                  .fallback = "none",
                  .doc = "variables to exclude from weight decay: a name or glob, or a list",
                  .unless = {"includes"}});
  return keys;
}

std::vector<Variant> make_optimizers() {
  const std::vector<KeyDef> adam = {beta1(), beta2(), epsilon("1e-8"), bias_correction()};
  return {
      {"sgd",
       "Stochastic gradient descent, with momentum if `momentum` is above 0.",
       "w -= lr g; with momentum: m = momentum m + g, w -= lr m (nesterov: lr (g + momentum m))",
       {momentum("0"), {"nesterov", KeyType::kBool, "false", "use Nesterov momentum"}}},
      {"sgdw", "SGD with momentum and decoupled weight decay (Loshchilov and Hutter, 2019).",
       "m = momentum m + g, w -= lr m + lr weight_decay w", with_decay({momentum("0.9")})},
      {"adam", "Adam (Kingma and Ba, 2015).",
       "m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, w -= lr (m / (1 - beta1^t)) / "
       "(sqrt(v / (1 - beta2^t)) + epsilon), t = step + 1",
       adam},
      {"adamw", "Adam with decoupled weight decay (Loshchilov and Hutter, 2019).",
       "as adam, then w -= lr weight_decay w_old", with_decay(adam)},
      {"rmsprop",
       "RMSprop (Tieleman and Hinton, 2012): divides gradients by the root of their moving mean "
       "square.",
       "ms = decay_rate ms + (1 - decay_rate) g^2, w -= lr g / sqrt(ms + epsilon) (centered: ms - "
       "mg^2, mg = decay_rate mg + (1 - decay_rate) g)",
       {{"decay_rate", kNumber, "0.99", "decay rate of the moving averages", kBelowOne},
        epsilon("1e-8"),
        {"centered", KeyType::kBool, "false",
         "divide by the root of the variance instead of the mean square"}}},
      {"lars",
       "LARS (You et al., 2017): momentum with a learning rate per variable, from its "
       "weight-to-gradient norm ratio.",
       "r = lr lars_coefficient |w| / (|g| + weight_decay |w| + epsilon), lr where a norm is 0, m "
       "= momentum_beta m - r (g + weight_decay w), w += m, |x| = rms(x)",
       with_decay({{"momentum_beta", kNumber, "0.9",
                    "momentum coefficient: fraction of the last update to keep", kShare},
                   epsilon("1e-9"),
                   {"lars_coefficient", kNumber, "1e-4", "trust coefficient on the norm ratio",
                    kNotNegative}},
                  "0")},
      {"lamb",
       "LAMB (You et al., 2020): Adam with a learning rate per variable, from its weight-to-update "
       "norm ratio.",
       "a = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay w, w -= lr "
       "(|w| / |a|) a, lr a where a norm is 0",
       with_decay({beta1(), beta2(), epsilon("1e-6")}, "0")},
  };
}

}  // namespace

const VariantKind& optimizers() {
  static const VariantKind kKind{
      "optimizer",
      "optimizer",
      make_optimizers(),
      {variant("learning_rate", "", "learning rate, as a number or a schedule over steps",
               learning_rates()),
       section("learning_rate_scales", "none", "learning rate factors by variable name or glob",
               learning_rate_scales()),
       {"minimize", KeyType::kGlobs, "",
        "loss to minimize, or list of losses with the same number of elements"},
       {"variables", KeyType::kGlobs, "none",
        "variables to train: a name or glob, or a list; default: all"},
       variant("grad_clipping", "none", "gradient clipping", grad_clippings()),
       variant("loss_scale", "none",
               "loss scaling, which keeps small float16 gradients from underflowing",
               loss_scales())}};
  return kKind;
}

const Section& learning_rate_scales() {
  static const Section kSection{
      .what = "`learning_rate_scales`",
      .keys = {},
      .each = KeyDef{"", kNumber, "none",
                     "factor on the learning rate of variables that match the key", kPositive},
      .own_keys = OwnKeys::kGlobs};
  return kSection;
}

const VariantKind& grad_clippings() {
  static const VariantKind kKind{
      "grad_clipping",
      "gradient clipping",
      {{"by_global_norm",
        "Scales all gradients down so that their global norm is at most clip_norm.",
        "g = g min(1, clip_norm / |all g|)",
        {{"clip_norm", kNumber, "", "largest global norm", kPositive}}},
       {"by_value",
        "Clips each gradient element to [-clip_value, clip_value].",
        "g = max(-clip_value, min(clip_value, g))",
        {{"clip_value", kNumber, "", "largest absolute value", kPositive}}}},
      {}};
  return kKind;
}

const VariantKind& loss_scales() {
  static const VariantKind kKind{
      "loss_scale",
      "loss scale",
      {{"dynamic",
        "Grows while gradients are finite and shrinks when they are not.",
        "scale = scale growth_factor after growth_interval finite steps, scale backoff_factor "
        "after a non-finite step, which skips the update but still increments t",
        {{"initial", kNumber, "65536", "initial scale", kScale},
         {"growth_factor", kNumber, "2", "factor to grow by", Bounds{.above = 1}},
         {"backoff_factor", kNumber, "0.5", "factor to shrink by", Bounds{.below = 1, .above = 0}},
         {"growth_interval", KeyType::kInteger, "2000",
          "finite steps in a row before the scale grows", Bounds{.min = 1}}}},
       {"static",
        "A constant scale.",
        "loss times value, gradients divided by value",
        {{"value", kNumber, "", "loss scale", kScale}}}},
      {}};
  return kKind;
}

std::string_view update_op(std::string_view optimizer,
                           const std::map<std::string, double>& numbers) {
  if (optimizer == "sgd") return numbers.at("momentum") == 0 ? "sgd_update" : "momentum_update";
  if (optimizer == "sgdw") return "momentum_update";
  if (optimizer == "adam" || optimizer == "adamw") return "adam_update";
  if (optimizer == "rmsprop")
    return numbers.at("centered") == 0 ? "rmsprop_update" : "centered_rmsprop_update";
  if (optimizer == "lars") return "lars_update";
  FLOW_CHECK(optimizer == "lamb", "optimizer {}", optimizer);
  return "lamb_update";
}

}  // namespace flow::job
