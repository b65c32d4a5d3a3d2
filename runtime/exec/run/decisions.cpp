// The rules of decisions. The followed values are means that deliverers return at the end of each
// period.
#include "runtime/exec/run/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::exec {
namespace {

constexpr const char *kEarlyStopping = "early_stopping", *kKeepBest = "keep_best",
                     *kLearningRate = "learning_rate";

Period span_of(const plan::FollowedValue& value) { return {value.every_steps, value.every_epochs}; }

}  // namespace

Series::Series(const plan::FollowedValue& value, double min_delta)
    : value_(&value), min_delta_(min_delta) {
  state.watch = value.text;
  state.mode = value.mode;
}

void Series::resume(const plan::DecisionRecord& before) {
  if (before.watch == state.watch && before.mode == state.mode &&
      before.rate.has_value() == state.rate.has_value())
    state = before;
}

bool Series::take(double value, int64_t steps) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool better = state.mode == plan::Mode::kMin
                          ? value < state.best.value_or(kInfinity) - min_delta_
                          : value > state.best.value_or(-kInfinity) + min_delta_;
  if (!better) {
    ++state.bad;
    return false;
  }
  state.best = value;
  state.step = steps;
  state.bad = 0;
  return true;
}

PlateauRate::PlateauRate(const plan::schedules::Plateau& rule, const plan::FollowedValue& value)
    : series(value, rule.min_delta), rule_(rule) {
  series.state.rate = rule.base;
}

bool PlateauRate::take(double value, int64_t steps) {
  plan::DecisionRecord& state = series.state;
  series.take(value, steps);
  if (state.cooldown > 0) {
    --state.cooldown;
    state.bad = 0;
  }
  if (state.bad <= rule_.patience) return false;
  const double before = *state.rate;
  state.rate = rule_.reduced(before);
  state.cooldown = rule_.cooldown;
  state.bad = 0;
  return *state.rate != before;
}

Decisions::Decisions(const plan::Job& job, const plan::DecisionRecords& before)
    : stopping_(job.run.early_stopping) {
  if (job.run.early_stopping)
    early_.emplace(job.run.early_stopping->value, job.run.early_stopping->min_delta);
  if (job.run.checkpoint.keep_best) best_.emplace(*job.run.checkpoint.keep_best, 0);
  if (job.optimizer && job.optimizer->learning_rate.follows)
    rate_.emplace(std::get<plan::schedules::Plateau>(job.optimizer->learning_rate.function),
                  *job.optimizer->learning_rate.follows);
  const auto resume = [&](const char* name, Series& series) {
    if (const auto found = before.find(name); found != before.end()) series.resume(found->second);
  };
  if (early_) resume(kEarlyStopping, *early_);
  if (best_) resume(kKeepBest, *best_);
  if (rate_) resume(kLearningRate, rate_->series);
}

template <typename Visit>
void Decisions::visit_series(const Visit& visit) const {
  if (early_) visit(kEarlyStopping, *early_);
  if (best_) visit(kKeepBest, *best_);
  if (rate_) visit(kLearningRate, rate_->series);
}

std::vector<const plan::FollowedValue*> Decisions::values_of(const std::string& job) const {
  std::vector<const plan::FollowedValue*> values;
  visit_series([&](const char*, const Series& series) {
    const plan::FollowedValue& value = series.value();
    const bool known = std::ranges::any_of(
        values, [&](const plan::FollowedValue* other) { return other->key() == value.key(); });
    if (value.job == job && !known) values.push_back(&value);
  });
  return values;
}

bool Decisions::take(const plan::FollowedValue& value, double number, int64_t steps) {
  const auto is_of = [&](const Series& series) {
    return series.value().job == value.job && series.value().key() == value.key();
  };
  if (early_ && is_of(*early_)) early_->take(number, steps);
  if (rate_ && is_of(rate_->series)) rate_->take(number, steps);
  return best_ && is_of(*best_) && best_->take(number, steps);
}

bool Decisions::stops() const { return early_ && early_->state.bad >= stopping_->patience; }

std::string Decisions::why_it_stops() const {
  const plan::DecisionRecord& state = early_->state;
  const std::string series =
      state.bad == 1 ? "the last value" : fmt::format("{} values in a row", state.bad);
  if (!state.best) return fmt::format("`{}` was not a number for {}", state.watch, series);
  return fmt::format("`{}` did not improve on {}, after {}, for {}", state.watch,
                     human_number(*state.best), counted(static_cast<uint64_t>(state.step), "step"),
                     series);
}

std::optional<double> Decisions::learning_rate() const {
  return rate_ ? std::optional(rate_->rate()) : std::nullopt;
}

std::optional<int64_t> Decisions::best_step() const {
  return best_ && best_->state.best ? std::optional(best_->state.step) : std::nullopt;
}

plan::DecisionRecords Decisions::records() const {
  plan::DecisionRecords records;
  visit_series([&](const char* name, const Series& series) { records[name] = series.state; });
  return records;
}

FollowedValues::FollowedValues(const RunRequest& request, const PreparedRun& prepared)
    : request_(request),
      step_index_(prepared.input_pipeline->step_index()),
      decisions_(request.job, prepared.start.decisions) {}

bool FollowedValues::due_at(int64_t steps) const {
  return std::ranges::any_of(decisions_.values_of(""), [&](const plan::FollowedValue* value) {
    return span_of(*value).ends_at(step_index_, steps);
  });
}

int64_t FollowedValues::next_after(int64_t steps) const {
  int64_t next = std::numeric_limits<int64_t>::max();
  for (const plan::FollowedValue* value : decisions_.values_of(""))
    next = std::min(next, span_of(*value).next_end(step_index_, steps));
  return next;
}

bool FollowedValues::take_own(Deliverer& deliverer, MetricsLog& metrics, int64_t steps) {
  bool any = false;
  for (const plan::FollowedValue* value : decisions_.values_of("")) {
    if (!span_of(*value).ends_at(step_index_, steps)) continue;
    const std::optional<double> mean = deliverer.take_mean(value->key());
    if (!mean) continue;  // the mean was taken before the run was stopped here
    const int64_t last = steps - 1;
    take(*value, *mean, {last, step_index_.at(last).epoch, request_.job.name}, metrics, steps);
    any = true;
  }
  return any;
}

void FollowedValues::take_of(SubJobRun& called, MetricsLog& metrics, int64_t steps) {
  for (const plan::FollowedValue* value : decisions_.values_of(called.job().name))
    if (const std::optional<double> mean = called.take_mean(value->key()))
      take(*value, *mean,
           {steps, step_index_.at(steps).epoch, called.job().name, called.steps() - 1}, metrics,
           steps);
}

void FollowedValues::take(const plan::FollowedValue& value, double number,
                          const plan::MetricsPlace& place, MetricsLog& metrics, int64_t steps) {
  const std::string text = std::isfinite(number) ? plan::json_number(number) : "null";
  metrics.append_followed({place, value.tensor, value.text, text});
  const std::optional<double> before = decisions_.learning_rate();
  found_best_ |= decisions_.take(value, number, steps);
  if (const auto rate = decisions_.learning_rate(); request_.say && rate != before)
    request_.say(
        fmt::format("after {}: `{}` does not improve; the learning rate falls from {} to {}",
                    counted(static_cast<uint64_t>(steps), "step"), value.text,
                    human_number(*before), human_number(*rate)));
}

}  // namespace flow::exec
