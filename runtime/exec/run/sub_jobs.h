// Jobs that are called while another one runs, on the same variables: validation while training,
// alternating optimizers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/profile.h"
#include "runtime/exec/core/state.h"
#include "runtime/exec/core/thread_pool.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/events/tensorboard.h"
#include "runtime/exec/input/input_pipeline.h"
#include "runtime/exec/run/executor.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/model/plan.h"
#include "runtime/plan/model/shards.h"

namespace flow::exec {

class SubJobRun;

/// Where the main job stands when it calls others.
struct CallSite {
  int64_t main_step = 0;                                       // its steps that are complete
  int64_t main_epoch = 0;                                      // of its next step
  std::optional<std::chrono::steady_clock::time_point> since;  // its first call
  ThreadPool& pool;
  /// Called after a job that this rank has trained alone: others need the variables. May be empty.
  std::function<void()> share_trained = {};
  /// Called after each call that is complete. May be empty.
  std::function<void(SubJobRun&)> after_call = {};
};

/// One of them: its data, program and outputs. A call of a predict job is a pass over its data; of
/// a train job `run.steps` steps, 1 where it says nothing.
class SubJobRun {
 public:
  /// Opens everything, as prepare_run does; writes nothing.
  /// `number`: in the list of those that the main job calls, from 1.
  /// `request`: of the run; it outlives this.
  SubJobRun(const RunRequest& request, const plan::SubJob& also, const plan::Job& job,
            int64_t number);
  /// Makes the program, on variables that other programs share with it; those that only it has come
  /// from `state`.
  void prepare(Backend& backend, const std::vector<VariableSource>& variable_sources,
               const State& state);

  const plan::SubJob& also() const { return also_; }
  const plan::Job& job() const { return job_; }
  /// Does it change variables that other ranks do not see?
  bool trains_alone() const { return job_.train && !ranks_; }
  int64_t number() const { return number_; }
  const PreparedJob& prepared() const { return prepared_; }
  /// What each rank executes in a call: the caller adds the steps, and what happens with them.
  Execution execution(Deliverer& deliverer, ThreadPool& pool);
  /// Where the time of its calls went, where that is asked for.
  const Profile* profile() const { return profile_ ? &*profile_ : nullptr; }
  /// Copies the variables that only it has.
  void capture(State& state) const { state.capture(planned_, *prepared_.program); }
  /// Gives them the state's values.
  void restore(const State& state) { state.write_to(planned_, *prepared_.program); }
  /// Own steps, over all calls.
  int64_t steps() const { return steps_; }
  /// Goes on after so many steps. False where they are not those of `calls` calls, or of fewer.
  bool resume_from(int64_t steps, int64_t calls);
  /// Own steps when `calls` calls are complete.
  int64_t steps_of(int64_t calls) const { return steps_of_epochs(calls, steps_a_call_); }

  /// Those of its outputs that grow, below the run directory.
  std::vector<std::string> growing_files() const;
  /// The same as they are now, and how often its hooks with a condition fired.
  void add_outputs(OutputState& outputs) const;
  /// Makes the outputs, under DIR/also/JOB. `sums`: of the checkpoint. `of_run`: the metrics of the
  /// main job, which outlive this; null: it has none.
  /// `tensorboard`: of the run, likewise.
  void begin(const Sums& sums, const io::RecordedFiles* recorded, MetricsLog* of_run,
             TensorBoard* tensorboard);
  /// Makes calls until `calls` are complete. One of a predict job that is interrupted does not
  /// count: nothing is reduced or kept in the metrics of it, and a resumed run makes it whole. One
  /// of a train job is not interrupted.
  RunResult call_until(int64_t calls, const CallSite& site);
  /// As of the Deliverer, of the last call.
  std::optional<double> take_mean(const std::string& key) { return deliverer_->take_mean(key); }
  /// Has a command of it asked the run to stop?
  const Deliverer& deliverer() const { return *deliverer_; }
  /// Ends its commands, which are told how the run ended: done, stopped or failed.
  void end(std::string_view status) { deliverer_->commands().end(status); }
  /// Closes its files. RunError where the system could not keep what was written.
  void close();

 private:
  RunResult call(const CallSite& site);
  void end_call(RunResult& result);
  /// Of the names of its sums in a checkpoint.
  std::string sums_prefix() const { return "also/" + job_.name + "/"; }
  void log(const StepRecord& record, const CallSite& site);
  void say_what_is_awaited(int64_t steps);

  const RunRequest& request_;
  const plan::SubJob& also_;
  const plan::Job& planned_;
  const int64_t number_;
  Ranks* const ranks_;   // that share its shards; null: it runs on this rank alone
  const plan::Job job_;  // as it is called: its draws named `JOB:NAME`
  bool said_ = false;    // what is awaited
  PreparedJob prepared_;
  int64_t steps_a_call_ = 1, steps_ = 0;
  std::optional<Deliverer> deliverer_;
  std::optional<MetricsLog> metrics_;
  MetricsLog* of_run_ = nullptr;
  TensorBoard* tensorboard_ = nullptr;
  std::optional<Profile> profile_;
};

/// All that a job calls, in the order of its list. A rank that does not lead has only those whose
/// shards the ranks share.
class SubJobRuns {
 public:
  SubJobRuns(const RunRequest& request, const StepIndex& step_index);
  /// The one of that number.
  SubJobRun& numbered(int64_t number) const;
  /// Makes the programs, on the variables of `main`'s.
  void prepare(Backend& backend, const Program& main, const State& state);

  /// Is a call due when so many steps of the main job are complete?
  bool due_at(int64_t steps) const;
  /// Was one that is due by then not made?
  bool behind_at(int64_t steps) const;
  /// They go on after so many steps of their own, by name. Returns one that has not made so many in
  /// its calls, or null.
  const SubJobRun* resume_from(const std::map<std::string, int64_t>& own_steps, int64_t steps);
  /// The next number of steps, more than `steps`, at which one is; the largest number for never.
  int64_t next_after(int64_t steps) const;
  void begin(const Sums& sums, const io::RecordedFiles* recorded, MetricsLog* of_run,
             TensorBoard* tensorboard);
  /// Makes all calls that are due there and that were not made. The result has failures and
  /// interruptions.
  RunResult call_at(const CallSite& site);
  Stop stop_asked() const;
  std::string stopping_hook() const;
  void end(std::string_view status);
  void close();

  std::vector<std::unique_ptr<SubJobRun>>& jobs() { return jobs_; }
  const std::vector<std::unique_ptr<SubJobRun>>& jobs() const { return jobs_; }

 private:
  int64_t calls_after(const plan::SubJob& also, int64_t steps) const;

  const plan::Job& main_;
  const StepIndex& step_index_;  // of the main job
  std::vector<std::unique_ptr<SubJobRun>> jobs_;
};

}  // namespace flow::exec
