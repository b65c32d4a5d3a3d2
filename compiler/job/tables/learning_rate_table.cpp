// Learning rates and their warm-ups, each with its keys.
#include "compiler/job/tables/key_makers.h"
#include "compiler/job/tables/optimizer_table.h"
#include "compiler/job/tables/record_keys.h"
#include "runtime/plan/model/schedule.h"

namespace flow::job {

namespace {

/// A plateau watches a value.
std::vector<Variant> make_learning_rates() {
  std::vector<Variant> all = variants_of(plan::RateFunction());
  for (Variant& schedule : all)
    if (schedule.type == plan::schedules::Plateau::record().type)
      for (KeyDef& key : followed_keys("watch")) schedule.keys.push_back(std::move(key));
  return all;
}

}  // namespace

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

}  // namespace flow::job
