// The learning rate of a plan: its numbers lie in their ranges.
#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/plan/check/check_job.h"

namespace flow::plan {
namespace {

void check_numbers(const RateFunction& function, const Location& location) {
  const auto check = [&](std::string_view name, double number, const Bounds& bounds) {
    location.require(std::isfinite(number) && is_within(number, bounds),
                     "learning rate: `{}` is {}, out of range", name, number);
  };
  std::visit([&](const auto& one) { for_each_number(one, check); }, function);
}

/// `more`: how many more rates than boundaries there are.
void check_pieces(const std::vector<int64_t>& boundaries, const std::vector<double>& rates,
                  size_t more, const Location& location) {
  location.require(rates.size() == boundaries.size() + more,
                   "learning rate: {} rates do not match {} boundaries", rates.size(),
                   boundaries.size());
  location.require(
      std::ranges::adjacent_find(boundaries, std::greater_equal<>()) == boundaries.end(),
      "learning rate: boundaries must increase");
  location.require(std::ranges::all_of(rates, [](double rate) { return std::isfinite(rate); }),
                   "learning rate: a rate is not finite");
}

void check_function(const RateFunction& function, const std::optional<Warmup>& warmup,
                    const Location& location) {
  check_numbers(function, location);
  if (const auto* pieces = std::get_if<schedules::PiecewiseConstant>(&function))
    check_pieces(pieces->boundaries, pieces->values, 1, location);
  if (const auto* pieces = std::get_if<schedules::PiecewiseScaling>(&function))
    check_pieces(pieces->boundaries, pieces->scale, 0, location);
  if (!warmup) return;
  location.require(
      warmup->steps >= 1 && warmup->multiplier >= 0 && std::isfinite(warmup->multiplier),
      "invalid warm-up: {} steps from {}", warmup->steps, warmup->multiplier);
}

}  // namespace

void check_schedule(const Schedule& schedule, const Location& location) {
  check_function(schedule.function, schedule.warmup, location);
  const auto is_plateau = [](const RateFunction& function) {
    return std::holds_alternative<schedules::Plateau>(function);
  };
  int64_t before = 0;
  for (const ScheduleStage& stage : schedule.stages) {
    check_function(stage.function, stage.warmup, location);
    location.require(!is_plateau(schedule.function) && !is_plateau(stage.function),
                     "learning rate: a list has a plateau");
    location.require(stage.from > before && stage.from <= kMostSteps,
                     "learning rate: stage from step {} after {}", stage.from, before);
    before = stage.from;
  }
}

}  // namespace flow::plan
