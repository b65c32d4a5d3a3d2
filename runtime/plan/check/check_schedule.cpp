// The learning rate of a plan: its numbers lie in their ranges; and values that a job follows: a
// hook of the right job makes each.
#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/plan/check/check.h"

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

namespace {

bool is_made(const Job& job, const std::string& key) {
  return std::ranges::any_of(job.hooks, [&](const Hook& hook) {
    return std::ranges::any_of(hook.sinks, [&](const Sink& sink) {
      const auto* mean = std::get_if<MeanSink>(&sink);
      return mean && mean->value == key;
    });
  });
}

void check_value(const Plan& plan, const Job& job, const FollowedValue& value,
                 const Location& location) {
  const bool own = value.job.empty();
  location.require(job.train, "a predict job follows a value");
  location.require(value.every_steps >= 0 && value.every_epochs >= 0 &&
                       (value.every_steps > 0) + (value.every_epochs > 0) == (own ? 1 : 0),
                   "invalid span of {} steps, {} epochs", value.every_steps, value.every_epochs);
  location.require(value.every_epochs == 0 || !job.datasets.empty(),
                   "a span of epochs requires a dataset");
  const bool called =
      std::ranges::find(job.run.also, value.job, &SubJob::job) != job.run.also.end();
  location.require(own || called, "a value of job `{}`, which is not called", value.job);
  const Job& maker = own ? job : *std::ranges::find(plan.jobs, value.job, &Job::name);
  location.require(is_made(maker, value.key()), "no hook of job `{}` makes it", maker.name);
}

}  // namespace

void check_followed(const Plan& plan, const Job& job, const Location& location) {
  visit_followed(job, [&](const FollowedValue& value) {
    check_value(plan, job, value, location.at("followed value", value.text));
  });
  if (job.run.early_stopping) {
    const EarlyStopping& stopping = *job.run.early_stopping;
    location.require(stopping.patience >= 1 && stopping.patience <= kMostSteps &&
                         stopping.min_delta >= 0 && std::isfinite(stopping.min_delta),
                     "invalid early stopping: patience {}, min_delta {}", stopping.patience,
                     stopping.min_delta);
  }
  if (!job.optimizer) return;
  const Schedule& schedule = job.optimizer->learning_rate;
  location.require(
      std::holds_alternative<schedules::Plateau>(schedule.function) == schedule.follows.has_value(),
      "learning rate: plateau requires a followed value, and no other takes one");
}

}  // namespace flow::plan
