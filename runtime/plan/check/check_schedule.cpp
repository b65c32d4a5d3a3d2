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

}  // namespace

void check_schedule(const Schedule& schedule, const Location& location) {
  check_numbers(schedule.function, location);
  if (const auto* pieces = std::get_if<schedules::PiecewiseConstant>(&schedule.function))
    check_pieces(pieces->boundaries, pieces->values, 1, location);
  if (const auto* pieces = std::get_if<schedules::PiecewiseScaling>(&schedule.function))
    check_pieces(pieces->boundaries, pieces->scale, 0, location);
  if (!schedule.warmup) return;
  const Warmup& warmup = *schedule.warmup;
  location.require(warmup.steps >= 1 && warmup.multiplier >= 0 && std::isfinite(warmup.multiplier),
                   "invalid warm-up: {} steps from {}", warmup.steps, warmup.multiplier);
}

}  // namespace flow::plan
