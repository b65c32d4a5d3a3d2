// Learning rates and their warm-ups, each with its keys.
#include "compiler/job/key_makers.h"
#include "compiler/job/optimizer_table.h"

namespace flow::job {
namespace {

KeyDef base() {
  return {"base", kNumber, "", "the rate that the others are parts of", kNotNegative};
}

/// A schedule divides by it.
KeyDef steps(std::string_view doc) {
  return {"steps", KeyType::kInteger, "", doc, Bounds{.min = 1, .max = plan::kMostSteps}};
}

KeyDef boundaries() {
  return {"boundaries", KeyType::kBoundaries, "", "the last steps of each piece but the last",
          kNotNegative};
}

KeyDef alpha() { return {"alpha", kNumber, "0", "the share of the base that stays", kNotNegative}; }

std::vector<KeyDef> decay() {
  return {base(),
          steps("how many make one decay"),
          {"decay_rate", kNumber, "", "how fast it decays", kNotNegative},
          {"staircase", KeyType::kBool, "false", "only at whole decays"}};
}

std::vector<Variety> make_learning_rates() {
  return {
      {"constant", "The same in every step.", "base", {base()}},
      {"piecewise_constant",
       "One value up to and with each boundary, and one after the last.",
       "value i for the first i with step <= boundary i",
       {boundaries(), {"values", KeyType::kNumbers, "", "one more than boundaries", kNotNegative}}},
      {"piecewise_scaling",
       "The base times a factor for each boundary that is passed.",
       "base * scale 0 * ... * scale i - 1 for the first i with step <= boundary i",
       {base(),
        boundaries(),
        {"scale", KeyType::kNumbers, "", "a factor for each boundary, or one for all",
         kNotNegative}}},
      {"cosine",
       "Falls along half a cosine, then stays.",
       "base ((1 - alpha) (1 + cos(pi s)) / 2 + alpha), s = min(step / steps, 1)",
       {base(), steps("how long it falls"), alpha()}},
      {"linear_cosine",
       "A cosine times a falling line.",
       "base ((alpha + 1 - s) (1 + cos(2 pi num_periods s)) / 2 + beta), s = min(step / steps, 1)",
       {base(),
        steps("how long it falls"),
        {"num_periods", kNumber, "0.5", "waves of the cosine", kNotNegative},
        alpha(),
        {"beta", kNumber, "0.001", "the share of the base that is added", kNotNegative}}},
      {"polynomial",
       "Goes from the base to its end along a power.",
       "(base - end) (1 - s)^power + end, s = min(step / steps, 1); cycle: steps times max(1, "
       "ceil(step / steps))",
       {base(),
        steps("how long it falls"),
        {"end", kNumber, "1e-4", "the last rate", kNotNegative},
        {"power", kNumber, "1", "1 is a line", kNotNegative},
        {"cycle", KeyType::kBool, "false", "begin again after the end"}}},
      {"exponential", "Falls by the same factor in the same number of steps.",
       "base decay_rate^(step / steps)", decay()},
      {"inverse_time", "Falls as one over the step.", "base / (1 + decay_rate step / steps)",
       decay()},
      {"natural_exp", "Falls by powers of e.", "base exp(-decay_rate step / steps)", decay()},
  };
}

}  // namespace

const VarietyKind& learning_rates() {
  static const VarietyKind kKind{
      .key = "learning_rate",
      .noun = "learning rate",
      .varieties = make_learning_rates(),
      .common = {variety("warmup", "none", "other rates in the first steps", warmups())},
      .number = "constant"};
  return kKind;
}

const VarietyKind& warmups() {
  static const VarietyKind kKind{
      "warmup",
      "warm-up",
      {{"constant",
        "A share of the base.",
        "base multiplier",
        {steps("how many"), {"multiplier", kNumber, "", "the share", kNotNegative}}},
       {"linear",
        "Grows to the base.",
        "base (start_multiplier + (1 - start_multiplier) step / steps)",
        {steps("how many"),
         {"start_multiplier", kNumber, "", "the share in step 0", kNotNegative}}}},
      {}};
  return kKind;
}

}  // namespace flow::job
