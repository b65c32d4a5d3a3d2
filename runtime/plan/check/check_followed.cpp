// Values that a job follows: a hook of the right job makes each.
#include <algorithm>
#include <cmath>

#include "runtime/plan/check/check_job.h"

namespace flow::plan {
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
