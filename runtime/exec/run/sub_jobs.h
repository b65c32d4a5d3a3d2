// Jobs that are called while another job runs, on the same variables, for validation during
// training or for alternating optimizers.
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

/// The progress of the main job when it calls others.
struct CallSite {
  int64_t main_step = 0;                                       // its complete steps
  int64_t main_epoch = 0;                                      // the epoch of its next step
  std::optional<std::chrono::steady_clock::time_point> since;  // the time of its first call
  ThreadPool& pool;
  /// Called after a job that only this rank has trained, because other ranks need the variables.
  /// May be empty.
  std::function<void()> share_trained = {};
  /// Called after each complete call. May be empty.
  std::function<void(SubJobRun&)> after_call = {};
};

/// A called job with its data, program and outputs. A call of a predict job is a pass over its
/// data; a call of a train job is `run.steps` steps, or 1 if the job does not specify them.
class SubJobRun {
 public:
  /// Opens everything that the job reads, as prepare_run does; writes no files. `number` is the
  /// position, from 1, in the list of jobs that the main job calls. `learned` are the values of
  /// columns that are known so far. `request` is that of the run and must outlive this object.
  SubJobRun(const RunRequest& request, const plan::SubJob& also, const plan::Job& job,
            int64_t number, const data::Learned& learned);
  /// Makes the program, which shares variables with other programs. The variables that only this
  /// job has are set from `state`.
  void prepare(Backend& backend, const std::vector<VariableSource>& variable_sources,
               const State& state);

  const plan::SubJob& also() const { return also_; }
  const plan::Job& job() const { return job_; }
  /// Returns true if it changes variables on this rank only, so that other ranks need a copy.
  bool trains_alone() const { return job_.train && !ranks_; }
  int64_t number() const { return number_; }
  const PreparedJob& prepared() const { return prepared_; }
  /// Returns what each rank executes in a call. The caller sets the steps and the callbacks.
  Execution execution(Deliverer& deliverer, ThreadPool& pool);
  /// The profile of its calls, or null if no profile was requested.
  const Profile* profile() const { return profile_ ? &*profile_ : nullptr; }
  /// Copies the variables that only this job has into `state`.
  void capture(State& state) const { state.capture(planned_, *prepared_.program); }
  /// Sets these variables from `state`.
  void restore(const State& state) { state.write_to(planned_, *prepared_.program); }
  /// The steps of this job, over all calls.
  int64_t steps() const { return steps_; }
  /// Continues after `steps` steps. Returns false if these are not the steps of a whole number of
  /// calls that is at most `calls`.
  bool resume_from(int64_t steps, int64_t calls);
  /// The steps of this job when `calls` calls are complete.
  int64_t steps_of(int64_t calls) const { return steps_of_epochs(calls, steps_a_call_); }

  /// The output files that grow, relative to the run directory.
  std::vector<std::string> growing_files() const;
  /// Adds the current state of these files, and the number of times that its conditional hooks
  /// fired.
  void add_outputs(OutputState& outputs) const;
  /// Creates the outputs, under DIR/also/JOB. `sums` are those of the checkpoint. `of_run` contains
  /// the metrics of the main job and may be null; `tensorboard` is that of the run and may be null.
  /// Both must outlive this object.
  void begin(const Sums& sums, const io::RecordedFiles* recorded, MetricsLog* of_run,
             TensorBoard* tensorboard);
  /// Makes calls until `calls` are complete. An interrupted call of a predict job does not count:
  /// nothing of it is reduced or added to the metrics, and a resumed run repeats it completely. A
  /// call of a train job is not interrupted.
  RunResult call_until(int64_t calls, const CallSite& site);
  /// Returns the mean of the last call, like Deliverer::take_mean.
  std::optional<double> take_mean(const std::string& key) { return deliverer_->take_mean(key); }
  /// The deliverer, which records whether one of its commands has asked the run to stop.
  const Deliverer& deliverer() const { return *deliverer_; }
  /// Ends its commands and sends them how the run ended: done, stopped or failed.
  void end(std::string_view status) { deliverer_->commands().end(status); }
  /// Closes its files. Throws RunError if the system could not store what was written.
  void close();

 private:
  RunResult call(const CallSite& site);
  void end_call(RunResult& result);
  /// The prefix of the names of its sums in a checkpoint.
  std::string sums_prefix() const { return "also/" + job_.name + "/"; }
  void log(const StepRecord& record, const CallSite& site);
  void say_what_is_awaited(int64_t steps);

  const RunRequest& request_;
  const plan::SubJob& also_;
  const plan::Job& planned_;
  const int64_t number_;
  Ranks* const ranks_;   // the ranks that share its shards; null if it runs only on this rank
  const plan::Job job_;  // the job as it is called: its draws have names of the form `JOB:NAME`
  bool said_ = false;    // the remark about what it waits for was printed
  PreparedJob prepared_;
  int64_t steps_a_call_ = 1, steps_ = 0;
  std::optional<Deliverer> deliverer_;
  std::optional<MetricsLog> metrics_;
  MetricsLog* of_run_ = nullptr;
  TensorBoard* tensorboard_ = nullptr;
  std::optional<Profile> profile_;
};

/// All jobs that a job calls, in the order of its list. A rank that does not lead has only the jobs
/// whose shards the ranks share.
class SubJobRuns {
 public:
  /// `learned` are the values of columns that the main job learned or took over; those that a
  /// called job learns are added.
  SubJobRuns(const RunRequest& request, const StepIndex& step_index, data::Learned& learned);
  /// Returns the job with this number.
  SubJobRun& numbered(int64_t number) const;
  /// Makes the programs, which share the variables of `main`.
  void prepare(Backend& backend, const Program& main, const State& state);

  /// Returns true if a call is due when `steps` steps of the main job are complete.
  bool due_at(int64_t steps) const;
  /// Returns true if a call that is due at or before `steps` was not made.
  bool behind_at(int64_t steps) const;
  /// Continues each job after its own steps, given by name. Returns a job whose steps do not match
  /// its calls after `steps` steps of the main job, or null if all match.
  const SubJobRun* resume_from(const std::map<std::string, int64_t>& own_steps, int64_t steps);
  /// Returns the next number of steps, greater than `steps`, at which a call is due, or the largest
  /// int64_t if there is none.
  int64_t next_after(int64_t steps) const;
  void begin(const Sums& sums, const io::RecordedFiles* recorded, MetricsLog* of_run,
             TensorBoard* tensorboard);
  /// Makes all calls that are due at `site` and were not made yet. The result contains failures and
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
  const StepIndex& step_index_;  // that of the main job
  std::vector<std::unique_ptr<SubJobRun>> jobs_;
};

}  // namespace flow::exec
