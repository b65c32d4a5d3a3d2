// The decisions that a run makes from values that it follows: when it ends, which state is the
// best, and how far a learning rate falls.
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

/// A series of values: stores the best one, and how many values in a row were not better.
class Series {
 public:
  Series(const plan::FollowedValue& value, double min_delta);

  /// Continues from a record. Ignores the record of another value.
  void resume(const plan::DecisionRecord& before);
  /// Adds the value after `steps` complete steps. Returns true if it is better than the best by
  /// more than min_delta. NaN is never better.
  bool take(double value, int64_t steps);

  const plan::FollowedValue& value() const { return *value_; }
  plan::DecisionRecord state;

 private:
  const plan::FollowedValue* value_;
  double min_delta_;
};

/// A learning rate that falls if a value does not improve, by the rule of PyTorch's
/// ReduceLROnPlateau.
class PlateauRate {
 public:
  PlateauRate(const plan::schedules::Plateau& rule, const plan::FollowedValue& value);

  /// Adds a value. Returns true if the rate falls.
  bool take(double value, int64_t steps);
  double rate() const { return *series.state.rate; }
  Series series;

 private:
  const plan::schedules::Plateau& rule_;
};

class Decisions {
 public:
  /// `before` contains the records of the checkpoint that a run continues from; it is empty in a
  /// new run. The job must outlive the decisions.
  Decisions(const plan::Job& job, const plan::DecisionRecords& before);

  /// Returns the values of a called job that the decisions need, each once. An empty name stands
  /// for the job itself.
  std::vector<const plan::FollowedValue*> values_of(const std::string& job) const;
  /// Adds a value after `steps` complete steps of the job. Returns true if the state is now the
  /// best one.
  bool take(const plan::FollowedValue& value, double number, int64_t steps);

  bool stops() const;
  /// Returns a text such as "`eval.loss` did not improve on 0.5, after 40 steps, for 5 values in a
  /// row". REQUIRES: stops().
  std::string why_it_stops() const;
  /// The learning rate of the next steps, or nothing if it depends only on the step.
  std::optional<double> learning_rate() const;
  /// The number of steps of the best state, or nothing if the run keeps no best state or has none
  /// yet.
  std::optional<int64_t> best_step() const;
  plan::DecisionRecords records() const;

 private:
  template <typename Visit>
  void visit_series(const Visit& visit) const;

  std::optional<plan::EarlyStopping> stopping_;
  std::optional<Series> early_, best_;
  std::optional<PlateauRate> rate_;
};

/// The values that a run follows: passes them from the deliverers to the decisions and the metrics.
class FollowedValues {
 public:
  /// `request` and `prepared` must outlive it.
  FollowedValues(const RunRequest& request, const PreparedRun& prepared);

  const Decisions& decisions() const { return decisions_; }
  /// Returns true if a value of the job itself is due when `steps` of its steps are complete.
  bool due_at(int64_t steps) const;
  /// Returns the next number of steps, greater than `steps`, at which a value is due, or the
  /// largest int64_t if there is none.
  int64_t next_after(int64_t steps) const;
  /// Takes the values of the job itself that are due at `steps` and were not taken yet. Returns
  /// true if there were any.
  bool take_own(Deliverer& deliverer, MetricsLog& metrics, int64_t steps);
  /// Takes the values of a complete call, after `steps` steps of the main job.
  void take_of(SubJobRun& called, MetricsLog& metrics, int64_t steps);
  /// Returns true if a state was the best so far since the last call of this function.
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
