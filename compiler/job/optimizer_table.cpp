// Optimizers, gradient clipping and loss scales, each with its keys.
#include "compiler/job/optimizer_table.h"

#include "compiler/job/key_makers.h"
#include "runtime/base/check.h"

namespace flow::job {
namespace {

const Bounds kPositive{.above = 0}, kShare{.min = 0, .max = 1}, kBelowOne{.min = 0, .below = 1};
const Bounds kScale{.min = 1e-37, .max = 1.7e38};  // as move_loss_scale keeps them

KeyDef momentum(std::string_view fallback) {
  return {"momentum", kNumber, fallback, "how much of the last movement stays", kShare};
}

KeyDef epsilon(std::string_view fallback) {
  return {"epsilon", kNumber, fallback, "added to what is divided by", kPositive};
}

KeyDef beta1() {
  return {"beta1", kNumber, "0.9", "how much of the mean gradient stays", kBelowOne};
}

KeyDef beta2() {
  return {"beta2", kNumber, "0.999", "how much of the mean square of gradients stays", kBelowOne};
}

KeyDef bias_correction() {
  return {"bias_correction", KeyType::kBool, "true", "divide m and v by what they still lack"};
}

/// Weight decay of chosen variables.
std::vector<KeyDef> with_decay(std::vector<KeyDef> keys, std::string_view fallback = "") {
  keys.push_back({"weight_decay", kNumber, fallback,
                  "how much of itself a variable loses, times the rate", kNotNegative});
  keys.push_back({"includes", KeyType::kGlobs, "none", "the variables that decay alone"});
  keys.push_back({.name = "excludes",
                  .type = KeyType::kGlobs,
                  .fallback = "none",
                  .doc = "the variables that do not decay",
                  .unless = {"includes"}});
  return keys;
}

std::vector<Variety> make_optimizers() {
  const std::vector<KeyDef> adam = {beta1(), beta2(), epsilon("1e-8"), bias_correction()};
  return {
      {"sgd",
       "Gradient descent, with momentum where that is above 0.",
       "w -= lr g; with momentum: m = momentum m + g, w -= lr m (nesterov: lr (g + momentum m))",
       {momentum("0"), {"nesterov", KeyType::kBool, "false", "look ahead by one movement"}}},
      {"sgdw", "Gradient descent with momentum and weight decay apart from the gradient.",
       "m = momentum m + g, w -= lr m + lr weight_decay w", with_decay({momentum("0.9")})},
      {"adam", "Steps of the mean gradient over the root of its mean square.",
       "m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, w -= lr (m / (1 - beta1^t)) / "
       "(sqrt(v / (1 - beta2^t)) + epsilon), t = step + 1",
       adam},
      {"adamw", "Adam with weight decay apart from the gradient.",
       "as adam, then w -= lr weight_decay w_old", with_decay(adam)},
      {"rmsprop",
       "Gradients over the root of their mean square.",
       "ms = decay_rate ms + (1 - decay_rate) g^2, w -= lr g / sqrt(ms + epsilon) (centered: ms - "
       "mg^2, mg = decay_rate mg + (1 - decay_rate) g)",
       {{"decay_rate", kNumber, "0.99", "how much of the means stays", kBelowOne},
        epsilon("1e-8"),
        {"centered", KeyType::kBool, "false", "take the variance for the mean square"}}},
      {"lars",
       "Momentum with a rate for each variable, by the ratio of its norm to its gradient's.",
       "r = lr lars_coefficient |w| / (|g| + weight_decay |w| + epsilon), lr where a norm is 0, "
       "m = momentum_beta m - r (g + weight_decay w), w += m, norms as root mean squares",
       with_decay(
           {{"momentum_beta", kNumber, "0.9", "how much of the last movement stays", kShare},
            epsilon("1e-9"),
            {"lars_coefficient", kNumber, "1e-4", "trust in the ratio of norms", kNotNegative}},
           "0")},
      {"lamb",
       "Adam with a rate for each variable, by the ratio of its norm to that of its movement.",
       "a = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay w, w -= lr "
       "(|w| / |a|) a, lr a where a norm is 0",
       with_decay({beta1(), beta2(), epsilon("1e-6")}, "0")},
  };
}

}  // namespace

const VarietyKind& optimizers() {
  static const VarietyKind kKind{
      "optimizer",
      "optimizer",
      make_optimizers(),
      {variety("learning_rate", "", "a number, or a function of the step", learning_rates()),
       section("learning_rate_scales", "none", "variables that learn faster or slower",
               learning_rate_scales()),
       {"minimize", KeyType::kGlobs, "", "the loss, or several of as many elements"},
       {"variables", KeyType::kGlobs, "none", "the variables that are trained; default: all"},
       variety("grad_clipping", "none", "a bound on the gradients", grad_clippings()),
       variety("loss_scale", "none", "keeps float16 gradients from vanishing", loss_scales())}};
  return kKind;
}

const Section& learning_rate_scales() {
  static const Section kSection{.what = "`learning_rate_scales`",
                                .keys = {},
                                .each = KeyDef{"", kNumber, "none",
                                               "what the learning rate is multiplied by for "
                                               "variables of that name",
                                               kPositive},
                                .own_keys = OwnKeys::kGlobs};
  return kSection;
}

const VarietyKind& grad_clippings() {
  static const VarietyKind kKind{"grad_clipping",
                                 "gradient clipping",
                                 {{"by_global_norm",
                                   "Scales all gradients down to a norm that they have together.",
                                   "g = g min(1, clip_norm / |all g|)",
                                   {{"clip_norm", kNumber, "", "the greatest norm", kPositive}}},
                                  {"by_value",
                                   "Clips each element of the gradients by itself.",
                                   "g = max(-clip_value, min(clip_value, g))",
                                   {{"clip_value", kNumber, "", "the greatest size", kPositive}}}},
                                 {}};
  return kKind;
}

const VarietyKind& loss_scales() {
  static const VarietyKind kKind{
      "loss_scale",
      "loss scale",
      {{"dynamic",
        "Grows while gradients are finite, and shrinks where they are not.",
        "scale = scale growth_factor after growth_interval finite steps, scale backoff_factor "
        "after "
        "a step that is not, which is left out",
        {{"initial", kNumber, "65536", "the first scale", kScale},
         {"growth_factor", kNumber, "2", "what it grows by", Bounds{.above = 1}},
         {"backoff_factor", kNumber, "0.5", "what it shrinks by", Bounds{.below = 1, .above = 0}},
         {"growth_interval", KeyType::kInteger, "2000", "finite steps before it grows",
          Bounds{.min = 1}}}},
       {"static",
        "A scale that stays.",
        "the loss times value, the gradients divided by it",
        {{"value", kNumber, "", "the scale", kScale}}}},
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
