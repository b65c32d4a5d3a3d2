// The learning rate of a plan: numbers that its type takes, in their ranges.
#include <algorithm>
#include <cmath>

#include "runtime/plan/check/check_job.h"
#include "runtime/plan/model/schedule.h"

namespace flow::plan {
namespace {

void check_numbers(const Schedule& schedule, const ScheduleType& type, const Location& location) {
  for (const ScheduleNumber& number : type.numbers) {
    const auto found = schedule.values.find(std::string(number.name));
    location.require(found != schedule.values.end(), "learning rate {}: missing `{}`", type.type,
                     number.name);
    const double value = found->second;
    // Not a number fails too.
    location.require(
        number.min <= value && value <= number.max && (!number.whole || value == std::floor(value)),
        "learning rate: `{}` is {}, out of range", number.name, value);
  }
  location.require(schedule.values.size() == type.numbers.size(),
                   "learning rate {}: expected {} numbers, found {}", type.type,
                   type.numbers.size(), schedule.values.size());
}

void check_pieces(const Schedule& schedule, const ScheduleType& type, const Location& location) {
  const size_t boundaries = schedule.boundaries.size();
  const size_t rates = type.more_rates == ScheduleType::kNone
                           ? 0
                           : boundaries + static_cast<size_t>(type.more_rates);
  location.require(type.more_rates != ScheduleType::kNone || boundaries == 0,
                   "learning rate {} takes no boundaries", type.type);
  location.require(schedule.rates.size() == rates,
                   "learning rate: {} rates do not match {} boundaries", schedule.rates.size(),
                   boundaries);
  location.require(std::ranges::adjacent_find(schedule.boundaries, std::greater_equal<>()) ==
                       schedule.boundaries.end(),
                   "learning rate: boundaries must increase");
  location.require(
      std::ranges::all_of(schedule.rates, [](double rate) { return std::isfinite(rate); }),
      "learning rate: a rate is not finite");
}

}  // namespace

void check_schedule(const Schedule& schedule, const Location& location) {
  const ScheduleType* type = find_schedule_type(schedule.type);
  location.require(type, "unknown learning rate `{}`", schedule.type);
  check_numbers(schedule, *type, location);
  check_pieces(schedule, *type, location);
  if (!schedule.warmup) return;
  const Warmup& warmup = *schedule.warmup;
  location.require(warmup.type == "constant" || warmup.type == "linear", "unknown warm-up `{}`",
                   warmup.type);
  location.require(warmup.steps >= 1 && warmup.multiplier >= 0 && std::isfinite(warmup.multiplier),
                   "invalid warm-up: {} steps from {}", warmup.steps, warmup.multiplier);
}

}  // namespace flow::plan
