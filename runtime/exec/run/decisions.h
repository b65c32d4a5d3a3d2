// What a run decides by values that it follows: when it ends, which state is the best, and how far
// a learning rate falls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/events/tensorboard.h"
#include "runtime/exec/input/source.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/run.h"
#include "runtime/exec/run/sub_jobs.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// A series of values: the best, and how many in a row were not better.
class Series {
 public:
  Series(const plan::FollowedValue& value, double min_delta);

  /// Goes on from a record; from one of another value nothing.
  void resume(const plan::DecisionRecord& before);
  /// `steps`: that are complete. Returns whether the value is better than the best by more than
  /// min_delta. What is not a number is not.
  bool take(double value, int64_t steps);

  const plan::FollowedValue& value() const { return *value_; }
  plan::DecisionRecord state;

 private:
  const plan::FollowedValue* value_;
  double min_delta_;
};

/// A learning rate that falls when a value does not improve: the rule of PyTorch's
/// ReduceLROnPlateau.
class PlateauRate {
 public:
  PlateauRate(const plan::schedules::Plateau& rule, const plan::FollowedValue& value);

  /// Returns whether the rate falls.
  bool take(double value, int64_t steps);
  double rate() const { return *series.state.rate; }
  Series series;

 private:
  const plan::schedules::Plateau& rule_;
};

class Decisions {
 public:
  /// `before`: of the checkpoint that a run continues. The job outlives it.
  Decisions(const plan::Job& job, const plan::DecisionRecords& before);

  /// The values that it takes, each once: those of a called job, or for "" of the job itself.
  std::vector<const plan::FollowedValue*> values_of(const std::string& job) const;
  /// The value after `steps` complete steps of the job. Returns whether the state is now the best.
  bool take(const plan::FollowedValue& value, double number, int64_t steps);

  bool stops() const;
  /// "`eval.loss` did not improve on 0.5, after 40 steps, for 5 values in a row". REQUIRES:
  /// stops().
  std::string why_it_stops() const;
  /// Of the next steps; nothing where it depends on the step alone.
  std::optional<double> learning_rate() const;
  /// Steps of the best state; nothing where none is kept, or none was the best yet.
  std::optional<int64_t> best_step() const;
  plan::DecisionRecords records() const;

 private:
  template <typename Visit>
  void visit_series(const Visit& visit) const;

  std::optional<plan::EarlyStopping> stopping_;
  std::optional<Series> early_, best_;
  std::optional<PlateauRate> rate_;
};

/// Values that a run follows, on their way from what is delivered to decisions and the metrics.
class FollowedValues {
 public:
  /// Both outlive it.
  FollowedValues(const RunRequest& request, const PreparedRun& prepared);

  const Decisions& decisions() const { return decisions_; }
  /// Is a value of the job itself due when `steps` of its steps are complete?
  bool due_at(int64_t steps) const;
  /// The next number of steps, more than `steps`, at which one is; the largest number for never.
  int64_t next_after(int64_t steps) const;
  /// Takes those that are due there and were not taken. Returns whether there were any.
  bool take_own(Deliverer& deliverer, MetricsLog& metrics, int64_t steps);
  /// Takes those of a complete call, after `steps` steps of the main job.
  void take_of(SubJobRun& called, MetricsLog& metrics, int64_t steps);
  /// Was the state of a value the best that was taken since this was asked?
  bool finds_best() { return std::exchange(found_best_, false); }

 private:
  void take(const plan::FollowedValue& value, double number, const plan::MetricsPlace& place,
            MetricsLog& metrics, int64_t steps);

  const RunRequest& request_;
  const StepIndex& step_index_;
  Decisions decisions_;
  bool found_best_ = false;
};

}  // namespace flow::exec
