// Learning rates and their warm-ups, each with its keys.
#include "compiler/job/tables/key_makers.h"
#include "compiler/job/tables/optimizer_table.h"

namespace flow::job {
namespace {

KeyDef base() { return {"base", kNumber, "", "base learning rate", kNotNegative}; }

/// A schedule divides by it.
KeyDef steps(std::string_view doc) {
  return {"steps", KeyType::kInteger, "", doc, Bounds{.min = 1, .max = plan::kMostSteps}};
}

KeyDef boundaries() {
  return {"boundaries", KeyType::kBoundaries, "", "last step of each piece except the last",
          kNotNegative};
}

KeyDef alpha(std::string_view doc) { return {"alpha", kNumber, "0", doc, kNotNegative}; }

std::vector<KeyDef> decay() {
  return {base(),
          steps("steps per decay period"),
          {"decay_rate", kNumber, "", "decay rate per period", kNotNegative},
          {"staircase", KeyType::kBool, "false", "decay only at whole periods"}};
}

std::vector<Variant> make_learning_rates() {
  return {
      {"constant", "Constant learning rate.", "base", {base()}},
      {"piecewise_constant",
       "One constant value up to and including each boundary, and one after the last.",
       "value i for the first i with step <= boundary i",
       {boundaries(),
        {"values", KeyType::kNumbers, "", "learning rate of each piece; one more than `boundaries`",
         kNotNegative}}},
      {"piecewise_scaling",
       "Multiplies the base by a factor at each boundary.",
       "base * scale 0 * ... * scale i - 1 for the first i with step <= boundary i",
       {base(),
        boundaries(),
        {"scale", KeyType::kNumbers, "", "factor for each boundary, or one for all",
         kNotNegative}}},
      {"cosine",
       "Cosine decay (Loshchilov and Hutter, 2017) without restarts, then constant.",
       "base ((1 - alpha) (1 + cos(pi s)) / 2 + alpha), s = min(step / steps, 1)",
       {base(), steps("length of the decay in steps"),
        alpha("final learning rate as a fraction of the base")}},
      {"linear_cosine",
       "Cosine decay times linear decay (Bello et al., 2017).",
       "base ((alpha + 1 - s) (1 + cos(2 pi num_periods s)) / 2 + beta), s = min(step / steps, 1)",
       {base(),
        steps("length of the decay in steps"),
        {"num_periods", kNumber, "0.5", "number of cosine periods", kNotNegative},
        alpha("offset of the linear decay"),
        {"beta", kNumber, "0.001", "fraction of the base to add", kNotNegative}}},
      {"polynomial",
       "Polynomial decay from `base` to `end`.",
       "(base - end) (1 - s)^power + end, s = min(step / steps, 1); cycle: steps times max(1, "
       "ceil(step / steps))",
       {base(),
        steps("length of the decay in steps"),
        {"end", kNumber, "1e-4", "final learning rate", kNotNegative},
        {"power", kNumber, "1", "exponent of the polynomial; 1 is linear", kNotNegative},
        {"cycle", KeyType::kBool, "false",
         "restart the decay after the end, over a longer period"}}},
      {"exponential", "Exponential decay: multiplies by decay_rate in each period.",
       "base decay_rate^(step / steps)", decay()},
      {"inverse_time", "Inverse time decay.", "base / (1 + decay_rate step / steps)", decay()},
      {"natural_exp", "Natural exponential decay.", "base exp(-decay_rate step / steps)", decay()},
  };
}

}  // namespace

const VariantKind& learning_rates() {
  static const VariantKind kKind{
      .key = "learning_rate",
      .noun = "learning rate",
      .variants = make_learning_rates(),
      .common = {variant("warmup", "none", "warm-up schedule for the first steps", warmups())},
      .number = "constant"};
  return kKind;
}

const VariantKind& warmups() {
  static const VariantKind kKind{
      "warmup",
      "warm-up",
      {{"constant",
        "Constant fraction of the base learning rate.",
        "base multiplier",
        {steps("length of the warm-up in steps"),
         {"multiplier", kNumber, "", "fraction of the base learning rate", kNotNegative}}},
       {"linear",
        "Linear growth to the base learning rate.",
        "base (start_multiplier + (1 - start_multiplier) step / steps)",
        {steps("length of the warm-up in steps"),
         {"start_multiplier", kNumber, "", "fraction of the base learning rate at step 0",
          kNotNegative}}}},
      {}};
  return kKind;
}

}  // namespace flow::job
