// Jobs that are called while another one runs, on the same variables: validation while training,
// alternating optimizers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exec/backend.h"
#include "runtime/exec/delivery.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/feed.h"
#include "runtime/exec/metrics_log.h"
#include "runtime/exec/run.h"
#include "runtime/exec/state.h"
#include "runtime/plan/plan.h"

namespace flow::exec {

/// One of them: its data, program and outputs. A call of a predict job is a pass over its data; of
/// a train job `run.steps` steps, 1 where it says nothing.
class CalledJob {
 public:
  /// Opens and prepares everything, as Preparation does; writes nothing. `index` is the job's in
  /// the state.
  CalledJob(Backend& backend, const RunRequest& request, const plan::Also& also,
            const plan::Job& job, size_t index);

  const plan::Also& also() const { return also_; }
  const plan::Job& job() const { return job_; }
  /// Own steps, over all calls.
  int64_t steps() const { return steps_; }
  void resume_from(int64_t steps) { steps_ = steps; }
  /// Own steps when `calls` calls are complete.
  int64_t steps_of(int64_t calls) const { return steps_of_epochs(calls, steps_a_call_); }

  /// Makes the outputs, under DIR/also/JOB.
  void begin(const RunRequest& request);
  /// Makes calls until `calls` are complete. A call of a predict job that is interrupted is as if
  /// it had not begun; one of a train job is not interrupted.
  Ending call_until(int64_t calls, State& state,
                    std::optional<std::chrono::steady_clock::time_point> since);
  /// After the last call.
  void finish();

 private:
  Ending call(State& state, std::optional<std::chrono::steady_clock::time_point> since);

  const plan::Also& also_;
  const plan::Job job_;  // its draws named `JOB:NAME`
  const size_t index_;
  const std::function<int()> stop_signal_;
  Feed feed_;
  std::vector<Delivery> deliveries_;
  std::unique_ptr<Program> program_;
  const size_t output_slots_;
  const bool launches_ahead_;
  int64_t steps_a_call_ = 1, steps_ = 0;
  std::optional<Deliverer> deliverer_;
  std::optional<MetricsLog> metrics_;
};

/// All that a job calls, in the order of its list.
class CalledJobs {
 public:
  CalledJobs(Backend& backend, const RunRequest& request, const Positions& positions);

  /// Is a call due when so many steps of the main job are complete?
  bool due_at(int64_t steps) const;
  /// Was one that is due by then not made?
  bool behind_at(int64_t steps) const;
  /// The next number of steps, more than `steps`, at which one is; the largest number for never.
  int64_t next_after(int64_t steps) const;
  void begin(const RunRequest& request);
  /// Makes all calls that are due when `steps` steps of the main job are complete and that were not
  /// made. Main's variables are in `main`, before and after. The ending tells failures and
  /// interruptions.
  Ending call_at(int64_t steps, Program& main, State& state,
                 std::optional<std::chrono::steady_clock::time_point> since);
  void finish();

  bool empty() const { return jobs_.empty(); }
  std::vector<std::unique_ptr<CalledJob>>& jobs() { return jobs_; }
  const std::vector<std::unique_ptr<CalledJob>>& jobs() const { return jobs_; }

 private:
  int64_t calls_after(const plan::Also& also, int64_t steps) const;

  const Positions& positions_;  // of the main job
  std::vector<std::unique_ptr<CalledJob>> jobs_;
};

}  // namespace flow::exec
