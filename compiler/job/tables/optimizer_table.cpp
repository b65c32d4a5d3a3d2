// Optimizers, gradient clipping and loss scales, each with its keys.
#include "compiler/job/tables/optimizer_table.h"

#include "compiler/job/tables/gradient_records.h"
#include "compiler/job/tables/key_makers.h"
#include "compiler/job/tables/record_keys.h"
#include "runtime/plan/model/optimizers.h"

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

}  // namespace flow::job
