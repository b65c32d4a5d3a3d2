// Optimizers, gradient clipping, loss scales, learning rates and their warm-ups, each with its
// keys; how variables start, and what keeps their weights small.
#include "compiler/job/tables/optimizer_table.h"

#include "compiler/ir/initializers.h"
#include "compiler/job/tables/key_makers.h"
#include "compiler/job/tables/tables.h"
#include "runtime/plan/model/optimizers.h"
#include "runtime/plan/model/schedule.h"

namespace flow::job {
namespace {

/// Weight decay can be that of chosen variables, and Muon can leave out matrices.
std::vector<Variant> make_optimizers() {
  std::vector<Variant> all = variants_of(plan::OptimizerRule());
  for (Variant& optimizer : all) {
    if (optimizer.type == plan::optimizers::Muon::record().type)
      optimizer.keys.push_back(
          {"adamw", KeyType::kGlobs, "none",
           "matrices to update by adamw too, such as embeddings: a name or glob, or a list"});
    if (!find_key(optimizer.keys, "weight_decay")) continue;
    optimizer.keys.push_back({"includes", KeyType::kGlobs, "none",
                              "variables to decay: a name or glob, or a list; default: all"});
    optimizer.keys.push_back(
        {.name = "excludes",
         .type = KeyType::kGlobs,
         .fallback = "none",
         .doc = "variables to exclude from weight decay: a name or glob, or a list",
         .unless = {"includes"}});
  }
  return all;
}

/// A plateau watches a value.
std::vector<Variant> make_learning_rates() {
  std::vector<Variant> all = variants_of(plan::RateFunction());
  for (Variant& schedule : all)
    if (schedule.type == plan::schedules::Plateau::record().type)
      for (KeyDef& key : followed_keys("watch")) schedule.keys.push_back(std::move(key));
  return all;
}

}  // namespace

const VariantKind& optimizers() {
  static const VariantKind kKind{
      "optimizer",
      "optimizer",
      make_optimizers(),
      {{.name = "learning_rate",
        .type = KeyType::kVariants,
        .fallback = "",
        .doc = "learning rate, as a number, a schedule over steps, or a list of them that follow "
               "one another",
        .variants = &learning_rates()},
       section("learning_rate_scales", "none", "learning rate factors by variable name or glob",
               learning_rate_scales()),
       {"minimize", KeyType::kGlobs, "",
        "loss to minimize (the mean of its elements), or list of losses (the sum of their means)"},
       {"variables", KeyType::kGlobs, "none",
        "variables to train: a name or glob, or a list; default: all"},
       variant("grad_clipping", "none", "gradient clipping", grad_clippings()),
       {"norm", KeyType::kBool, "false",
        "compute the norm of all gradients, before clipping, for `metrics.jsonl` and hooks; "
        "clipping by global norm always does"},
       variant("loss_scale", "none",
               "loss scaling, which keeps small float16 gradients from underflowing",
               loss_scales()),
       section("ema", "none",
               "exponential moving averages of the trained variables, after each step: ema += (1 - "
               "decay) (w - ema); the first is w",
               ema_section()),
       section("lookahead", "none",
               "Lookahead (Zhang et al., 2019) around the optimizer: after each cycle of steps w = "
               "slow + alpha (w - slow), where slow is w before the cycle",
               lookahead_section())}};
  return kKind;
}

const Section& ema_section() {
  static const Section kSection{
      "`ema`",
      {{"decay", KeyType::kNumber, "", "fraction of the average to keep in each step",
        Bounds{.min = 0, .below = 1}}}};
  return kSection;
}

const Section& lookahead_section() {
  static const Section kSection{
      "`lookahead`",
      {{"steps", KeyType::kInteger, "", "steps of a cycle", Bounds{.min = 1, .max = 1e9}},
       {"alpha", KeyType::kNumber, "0.5", "part of the way of a cycle to keep",
        Bounds{.max = 1, .above = 0}}}};
  return kSection;
}

const Section& learning_rate_scales() {
  static const Section kSection{
      .what = "`learning_rate_scales`",
      .keys = {},
      .each =
          KeyDef{"", kNumber, "none", "factor on the learning rate of variables that match the key",
                 plan::kPositive},
      .own_keys = OwnKeys::kGlobs};
  return kSection;
}

const VariantKind& grad_clippings() {
  static const VariantKind kKind{
      "grad_clipping", "gradient clipping", variants_of(GradClipping()), {}};
  return kKind;
}

const VariantKind& loss_scales() {
  static const VariantKind kKind{"loss_scale", "loss scale", variants_of(LossScale()), {}};
  return kKind;
}

const VariantKind& learning_rates() {
  static const VariantKind kKind{
      .key = "learning_rate",
      .noun = "learning rate",
      .variants = make_learning_rates(),
      .common = {variant("warmup", "none", "warm-up schedule for the first steps", warmups()),
                 {"until", KeyType::kInteger, "none",
                  "in a list of schedules: first step of the next one, which counts steps from "
                  "there; all but the last require it",
                  plan::kScheduleSteps}},
      .number = "constant"};
  return kKind;
}

const VariantKind& warmups() {
  static const VariantKind kKind{"warmup", "warm-up", variants_of(plan::WrittenWarmup()), {}};
  return kKind;
}

const VariantKind& initializers() {
  static const VariantKind kKind{.key = "initializer",
                                 .noun = "initializer",
                                 .variants = variants_of(WrittenInitializer()),
                                 .common = {},
                                 .by_word = true,
                                 .number = "constant"};
  return kKind;
}

const Section& regularizer_section() {
  // The gradients of sums, whose elements can be counted, meet a multiple of it.
  static const Bounds kBounds{.min = 0, .max = 1e30};
  static const Section kSection{
      .what = "a regularizer",
      .keys = {{"l1", kNumber, "none", "L1 coefficient: adds l1 sign(w) to the gradient of w",
                kBounds},
               {"l2", kNumber, "none", "L2 coefficient: adds l2 w to the gradient of w", kBounds}},
      .one_of = {"l1", "l2"}};
  return kSection;
}

}  // namespace flow::job
