// Values that a run follows, on their way from what is delivered to decisions and the metrics.
#pragma once

#include <cstdint>
#include <utility>

#include "runtime/exec/core/decisions.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/deliver/metrics_log.h"
#include "runtime/exec/input/step_index.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/run.h"
#include "runtime/exec/run/sub_jobs.h"

namespace flow::exec {

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
