// Learning rates as functions of the global step.
#include "runtime/plan/model/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/base/check.h"

namespace flow::plan {
namespace {

double number(const Schedule& schedule, const char* name) { return schedule.values.at(name); }

/// Boundaries that the step has passed: at a boundary the old rate still holds.
size_t passed(const Schedule& schedule, int64_t step) {
  return static_cast<size_t>(std::ranges::lower_bound(schedule.boundaries, step) -
                             schedule.boundaries.begin());
}

/// The step, or the last of the schedule.
double capped(const Schedule& schedule, int64_t step) {
  return std::min(static_cast<double>(step), number(schedule, "steps"));
}

/// step / steps, rounded down for a staircase.
double periods(const Schedule& schedule, int64_t step) {
  const double elapsed = static_cast<double>(step) / number(schedule, "steps");
  return number(schedule, "staircase") != 0 ? std::floor(elapsed) : elapsed;
}

double constant(const Schedule& schedule, int64_t) { return number(schedule, "base"); }

double piecewise_constant(const Schedule& schedule, int64_t step) {
  return schedule.rates.at(passed(schedule, step));
}

double piecewise_scaling(const Schedule& schedule, int64_t step) {
  double rate = number(schedule, "base");
  for (size_t i = 0; i < passed(schedule, step); ++i) rate *= schedule.rates[i];
  return rate;
}

double cosine(const Schedule& schedule, int64_t step) {
  const double alpha = number(schedule, "alpha");
  const double part = capped(schedule, step) / number(schedule, "steps");
  const double wave = 0.5 * (1 + std::cos(std::numbers::pi * part));
  return number(schedule, "base") * ((1 - alpha) * wave + alpha);
}

double linear_cosine(const Schedule& schedule, int64_t step) {
  const double steps = number(schedule, "steps"), part = capped(schedule, step) / steps;
  const double wave =
      0.5 * (1 + std::cos(2 * std::numbers::pi * number(schedule, "num_periods") * part));
  const double line = number(schedule, "alpha") + (1 - part);
  return number(schedule, "base") * (line * wave + number(schedule, "beta"));
}

double polynomial(const Schedule& schedule, int64_t step) {
  double steps = number(schedule, "steps"), at = capped(schedule, step);
  if (number(schedule, "cycle") != 0) {
    at = static_cast<double>(step);
    steps *= std::max(1.0, std::ceil(at / steps));
  }
  const double end = number(schedule, "end");
  return (number(schedule, "base") - end) * std::pow(1 - at / steps, number(schedule, "power")) +
         end;
}

double exponential(const Schedule& schedule, int64_t step) {
  return number(schedule, "base") *
         std::pow(number(schedule, "decay_rate"), periods(schedule, step));
}

double inverse_time(const Schedule& schedule, int64_t step) {
  return number(schedule, "base") / (1 + number(schedule, "decay_rate") * periods(schedule, step));
}

double natural_exp(const Schedule& schedule, int64_t step) {
  return number(schedule, "base") *
         std::exp(-number(schedule, "decay_rate") * periods(schedule, step));
}

/// What warm-ups multiply: the rate that the schedule is said to have at first.
double base_of(const Schedule& schedule) {
  const auto base = schedule.values.find("base");
  return base != schedule.values.end() ? base->second : schedule.rates.at(0);
}

}  // namespace

std::span<const ScheduleType> schedule_types() {
  static const ScheduleNumber kBase{"base"}, kAlpha{"alpha"}, kDecayRate{"decay_rate"};
  static const ScheduleNumber kSteps{"steps", 1, kMostSteps, true};
  static const ScheduleNumber kCycle{"cycle", 0, 1, true}, kStaircase{"staircase", 0, 1, true};
  static const std::vector<ScheduleNumber> kDecay = {kBase, kSteps, kDecayRate, kStaircase};
  constexpr int kNone = ScheduleType::kNone;
  static const ScheduleType kTypes[] = {
      {"constant", {kBase}, kNone, constant},
      {"piecewise_constant", {}, 1, piecewise_constant},
      {"piecewise_scaling", {kBase}, 0, piecewise_scaling},
      {"cosine", {kBase, kSteps, kAlpha}, kNone, cosine},
      {"linear_cosine", {kBase, kSteps, {"num_periods"}, kAlpha, {"beta"}}, kNone, linear_cosine},
      {"polynomial", {kBase, kSteps, {"end"}, {"power"}, kCycle}, kNone, polynomial},
      {"exponential", kDecay, kNone, exponential},
      {"inverse_time", kDecay, kNone, inverse_time},
      {"natural_exp", kDecay, kNone, natural_exp},
  };
  return kTypes;
}

const ScheduleType* find_schedule_type(std::string_view type) {
  const auto types = schedule_types();
  const auto found = std::ranges::find(types, type, &ScheduleType::type);
  return found == types.end() ? nullptr : &*found;
}

double learning_rate(const Schedule& schedule, int64_t step) {
  const ScheduleType* type = find_schedule_type(schedule.type);
  FLOW_CHECK(type, "schedule {}", schedule.type);
  if (!schedule.warmup || step >= schedule.warmup->steps) return type->rate(schedule, step);
  const Warmup& warmup = *schedule.warmup;
  const double grown =
      warmup.type == "linear"
          ? (1 - warmup.multiplier) * static_cast<double>(step) / static_cast<double>(warmup.steps)
          : 0;
  return base_of(schedule) * (warmup.multiplier + grown);
}

}  // namespace flow::plan
