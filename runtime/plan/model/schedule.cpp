// Learning rates as functions of the global step.
#include "runtime/plan/model/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace flow::plan {
namespace {

/// Boundaries that the step has passed: at a boundary the old rate still holds.
size_t passed(const std::vector<int64_t>& boundaries, int64_t step) {
  return static_cast<size_t>(std::ranges::lower_bound(boundaries, step) - boundaries.begin());
}

/// The step, or the last of the schedule.
double capped(int64_t step, int64_t steps) {
  return std::min(static_cast<double>(step), static_cast<double>(steps));
}

/// What warm-ups multiply: the base, or the first of several rates.
double base_of(const RateFunction& function) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.base; })
          return one.base;
        else
          return one.values.at(0);
      },
      function);
}

}  // namespace

namespace schedules {

double Constant::rate(int64_t) const { return base; }

double PiecewiseConstant::rate(int64_t step) const { return values.at(passed(boundaries, step)); }

double PiecewiseScaling::rate(int64_t step) const {
  double scaled = base;
  for (size_t i = 0; i < passed(boundaries, step); ++i) scaled *= scale[i];
  return scaled;
}

double Cosine::rate(int64_t step) const {
  const double part = capped(step, steps) / static_cast<double>(steps);
  const double wave = 0.5 * (1 + std::cos(std::numbers::pi * part));
  return base * ((1 - alpha) * wave + alpha);
}

double LinearCosine::rate(int64_t step) const {
  const double part = capped(step, steps) / static_cast<double>(steps);
  const double wave = 0.5 * (1 + std::cos(2 * std::numbers::pi * num_periods * part));
  const double line = alpha + (1 - part);
  return base * (line * wave + beta);
}

double Polynomial::rate(int64_t step) const {
  double length = static_cast<double>(steps), at = capped(step, steps);
  if (cycle) {
    at = static_cast<double>(step);
    length *= std::max(1.0, std::ceil(at / length));
  }
  return (base - end) * std::pow(1 - at / length, power) + end;
}

double Decay::periods(int64_t step) const {
  const double elapsed = static_cast<double>(step) / static_cast<double>(steps);
  return staircase ? std::floor(elapsed) : elapsed;
}

double Exponential::rate(int64_t step) const { return base * std::pow(decay_rate, periods(step)); }

double InverseTime::rate(int64_t step) const { return base / (1 + decay_rate * periods(step)); }

double NaturalExp::rate(int64_t step) const { return base * std::exp(-decay_rate * periods(step)); }

double Plateau::reduced(double rate) const {
  const double next = std::max(rate * factor, min_lr);
  return rate - next > epsilon ? next : rate;
}

}  // namespace schedules

double Warmup::factor(int64_t step) const {
  if (type == Type::kConstant) return multiplier;
  return multiplier + (1 - multiplier) * static_cast<double>(step) / static_cast<double>(steps);
}

double learning_rate(const Schedule& schedule, int64_t step, std::optional<double> reduced) {
  if (schedule.warmup && step < schedule.warmup->steps)
    return reduced.value_or(base_of(schedule.function)) * schedule.warmup->factor(step);
  if (reduced) return *reduced;
  return std::visit([step](const auto& function) { return function.rate(step); },
                    schedule.function);
}

}  // namespace flow::plan
