// Computes learning rates from the global step.
#include "runtime/plan/model/schedule.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

namespace flow::plan {
namespace {

/// Returns how many boundaries the step has passed. At a boundary itself, the old rate still
/// applies.
size_t passed(const std::vector<int64_t>& boundaries, int64_t step) {
  return static_cast<size_t>(std::ranges::lower_bound(boundaries, step) - boundaries.begin());
}

/// Returns the step, limited to the last step of the schedule.
double capped(int64_t step, int64_t steps) {
  return std::min(static_cast<double>(step), static_cast<double>(steps));
}

/// Returns how far `step` is on the way from `from` to `to`, or 1 if the span is empty.
double elapsed(double step, double from, double to) {
  return to > from ? (step - from) / (to - from) : 1;
}

/// Returns the rate that a warm-up multiplies: the base, or the first of several rates.
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

double rate_of(const RateFunction& function, const std::optional<Warmup>& warmup, int64_t step,
               std::optional<double> reduced) {
  if (warmup && step < warmup->steps)
    return reduced.value_or(base_of(function)) * warmup->factor(step);
  if (reduced) return *reduced;
  return std::visit([step](const auto& one) { return one.rate(step); }, function);
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

double InverseSqrt::rate(int64_t step) const {
  return base * std::sqrt(static_cast<double>(steps) / static_cast<double>(std::max(step, steps)));
}

double StepDecay::rate(int64_t step) const {
  return base * std::pow(factor, static_cast<double>(step / steps));
}

double Linear::rate(int64_t step) const {
  const double part = capped(step, steps) / static_cast<double>(steps);
  return base * (start_factor + (end_factor - start_factor) * part);
}

double CosineRestarts::rate(int64_t step) const {
  double at = static_cast<double>(step), length = static_cast<double>(steps), restarts = 0;
  if (period_factor == 1) {
    restarts = static_cast<double>(step / steps);
    at = static_cast<double>(step % steps);
  }
  for (; at >= length; ++restarts) {
    at -= length;
    length *= static_cast<double>(period_factor);
  }
  const double wave = 0.5 * (1 + std::cos(std::numbers::pi * at / length));
  return base * ((1 - alpha) * std::pow(restart_factor, restarts) * wave + alpha);
}

double OneCycle::rate(int64_t step) const {
  const double last = static_cast<double>(steps) - 1,
               at = std::min(static_cast<double>(step), last);
  const double top = pct_start * static_cast<double>(steps) - 1, low = base / div_factor;
  const double end = low / final_div_factor;
  const auto between = [this](double a, double b, double part) {
    if (linear) return (b - a) * part + a;
    return b + (a - b) / 2 * (1 + std::cos(std::numbers::pi * part));
  };
  if (at <= top) return between(low, base, elapsed(at, 0, top));
  if (!three_phase) return between(base, end, elapsed(at, top, last));
  if (at <= 2 * top) return between(base, low, elapsed(at, top, 2 * top));
  return between(low, end, elapsed(at, 2 * top, last));
}

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
  const auto next = std::ranges::upper_bound(schedule.stages, step, {}, &ScheduleStage::from);
  if (next == schedule.stages.begin())
    return rate_of(schedule.function, schedule.warmup, step, reduced);
  const ScheduleStage& stage = *std::prev(next);
  return rate_of(stage.function, stage.warmup, step - stage.from, {});
}

}  // namespace flow::plan
