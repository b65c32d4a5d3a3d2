// Executes a run from its first step to its record, with its outputs, metrics and checkpoints, and
// writes run.json.
#include "runtime/exec/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "runtime/base/file_operations.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"
#include "runtime/data/files/digest.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/events/tensorboard.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/exec/run/decisions.h"
#include "runtime/exec/run/executor.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/run_outputs.h"
#include "runtime/io/checkpoint_folder.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kCalmDown = "try a smaller learning rate";
constexpr const char* kCountLabels =
    "put a label that counts into each batch: check `ignore_index`, the weights and the labels";

std::string steps_text(int64_t steps) { return counted(static_cast<uint64_t>(steps), "step"); }

class Run {
 public:
  /// `data` are the states of the data files before they were opened.
  Run(Backend& backend, const RunRequest& request, PreparedRun& prepared,
      std::vector<data::FileState> data)
      : backend_(backend),
        request_(request),
        data_(std::move(data)),
        job_(*prepared.whole),
        prepared_(prepared),
        step_index_(prepared.input_pipeline->step_index()),
        warning_(request),
        followed_(request, prepared),
        outputs_(request, prepared),
        steps_(prepared.start.first) {
    outcome_.first_step = prepared.start.first;
  }

  RunOutcome run() {
    try {
      conclude(execute());
      if (profile_) write_profile();
      end_commands();
      keep_outputs();
      const char* how = outcome_.stop == Stop::kCommand ? "stopped by a command"
                        : outcome_.stop == Stop::kHook  ? "stopped by a hook"
                                                        : "interrupted";
      write_record(outcome_.exit_status,
                   outcome_.interrupted()
                       ? fmt::format("{} after {}", how, steps_text(outcome_.steps))
                       : outcome_.error);
    } catch (const std::exception& error) {
      record_failure(error);
      throw;
    }
    return outcome_;
  }

 private:
  RunResult execute() {
    if (request_.resume) {
      remove_leftovers();
      outputs_.open();  // opened first: a failure leaves the run's plan and record unchanged
    }
    write_plan(request_);
    home_.emplace(request_.directory);
    checkpoint_writer_.emplace(request_, prepared_, *home_, outputs_.metrics, outputs_.tensorboard,
                               followed_.decisions(), warning_);
    if (request_.resume) {
      // The record of how the previous run ended.
      const fs::path before = request_.directory / kRunRecord;
      if (const std::error_code error = remove_path(before))
        throw cannot("remove", before, error.value());
      Folder(request_.directory).sync();  // a power failure must not restore the record
      checkpoint_writer_->prune();
    } else {
      outputs_.open();
    }
    pool_.emplace(kThreads);
    if (request_.profile) profile_.emplace(job_.name, *prepared_.program, prepared_.start.first);
    RunResult result;
    result.steps = prepared_.start.first;
    bool goes_on = settle(result);  // makes calls that were due when the resumed run stopped
    while (goes_on && result.steps < prepared_.end) {
      const int64_t until = std::min({prepared_.end, prepared_.called.next_after(result.steps),
                                      followed_.next_after(result.steps)});
      result = execute_until(until, result);
      goes_on = result.steps == until && !result.cut_short() && settle(result);
    }
    return result;
  }

  /// Removes incomplete files and checkpoints of an earlier run that was killed.
  void remove_leftovers() {
    io::CheckpointFolder(request_.directory).remove_leftovers();
    io::CheckpointFolder::at_path(request_.directory / kBestFolder).remove_leftovers();
    remove_temporaries(request_.directory);
  }

  /// Continues from the step at which `before` ended.
  RunResult execute_until(int64_t step, const RunResult& before) {
    RunResult result = execute_on_ranks(
        {.prepared = prepared_,
         .deliverer = *outputs_.deliverer,
         .first = before.steps,
         .end = step,
         .learning_rate = followed_.decisions().learning_rate(),
         .since = before.since,
         .pool = *pool_,
         .capture = [this] { prepared_.capture(); },
         .saves = [this](int64_t at) { return saves(at); },
         .on_step = [this](const StepRecord& record) { log_step(record); },
         .stop = [this] { return stop(); },
         .profile = profile_ ? &*profile_ : nullptr,
         .keep_fingerprints =
             [this](int64_t at, std::span<const Fingerprint> values) {
               outputs_.fingerprints->write(at, values);
             },
         .fingerprint_every = outputs_.fingerprints ? request_.fingerprints->every : 0,
         .ranks = request_.ranks},
        0);
    if (!result.last_loss) result.last_loss = before.last_loss;
    if (before.first_call_done) result.first_call_done = before.first_call_done;
    result.seconds = std::max(result.seconds, before.seconds);
    return result;
  }

  /// Returns the reason to stop that a command or a hook has requested, in this job or in a job
  /// that it calls.
  Stop stop_asked() const {
    const Stop own = outputs_.deliverer->stop_asked();
    return own == Stop::kNone ? prepared_.called.stop_asked() : own;
  }

  /// Ends the commands. If one of them fails, the remaining ones receive the status when they are
  /// destroyed.
  void end_commands() {
    const bool done = outcome_.exit_status == kDone;
    const char* status = outcome_.interrupted() ? "stopped" : done ? "done" : "failed";
    try {
      outputs_.deliverer->commands().end(status);
      prepared_.called.end(status);
    } catch (const RunError& error) {
      if (outcome_.interrupted() || !done) throw;
      throw error.hinting(fmt::format("all {} are done{}", steps_text(outcome_.steps),
                                      job_.train ? ", and the last state is saved" : ""));
    }
  }

  /// Returns when all outputs are on the disk. run.json, which is written next, records how the run
  /// ended, and must not survive a power failure if the outputs do not.
  void keep_outputs() {
    outputs_.close();
    home_->sync();
  }

  Stop stop() const {
    const Stop asked = stop_asked();
    return asked == Stop::kNone ? stop_for(request_.stop_signal) : asked;
  }

  /// Throws RunError if a data file has changed since the run began.
  void require_unchanged_data() const {
    for (const data::FileState& file : data_) data::require_unchanged({}, file);
  }

  /// Writes the names of the rows that a predict job has read.
  void write_names_of_rows(int64_t end) const {
    if (job_.train) return;
    const std::string names = prepared_.input_pipeline->names_of_rows(prepared_.start.first, end);
    if (!names.empty()) write_text_atomically(request_.directory / kRowsFile, names);
  }

  /// Returns true if the state after the step is saved. If values or calls are due after the step,
  /// the state is complete only after them, and settle() saves it.
  bool saves(int64_t step) {
    return !prepared_.called.due_at(step + 1) && !followed_.due_at(step + 1) &&
           checkpoint_writer_->wanted_after(step);
  }

  /// Takes the values and makes the calls that are due after the last step, and saves the state if
  /// a checkpoint is due, too. Returns false if the run ends.
  bool settle(RunResult& result) {
    const int64_t steps = result.steps;
    const bool took =
        outputs_.metrics && followed_.take_own(*outputs_.deliverer, *outputs_.metrics, steps);
    if (took) save_best(steps);
    const bool calls = prepared_.called.behind_at(steps);
    if (calls) call_others(result);
    if (took || calls) {
      checkpoint_writer_->changed();
      if (result.cut_short()) return false;
      if (checkpoint_writer_->wanted_after(steps - 1)) {
        capture();
        checkpoint_writer_->save(steps, outputs_.state());
      }
    }
    return !followed_.decisions().stops();
  }

  void call_others(RunResult& result) {
    const int64_t steps = result.steps;
    const auto after_call = [&](SubJobRun& called) {
      if (!outputs_.metrics) return;
      followed_.take_of(called, *outputs_.metrics, steps);
      save_best(steps);
    };
    const RunResult of_calls =
        prepared_.called.call_at({steps, step_index_.at(steps).epoch, result.since, *pool_,
                                  [this] { share_trained(); }, after_call});
    result.stop = of_calls.stop;
    result.failure = of_calls.failure;
    result.error = of_calls.error;
    result.delivered = !result.error;  // an error leaves a call incomplete
  }

  /// Saves the best state if the last values made it the best.
  void save_best(int64_t steps) {
    if (!followed_.finds_best()) return;
    capture();
    checkpoint_writer_->save_best(steps, outputs_.state());
  }

  /// Sends variables that only this rank has trained to the other ranks.
  void share_trained() {
    if (!request_.ranks) return;
    capture();
    request_.ranks->send({.kind = Order::Kind::kTakeVariables});
    share_variables(*request_.ranks, prepared_);
  }

  /// Copies all variables between calls, while the other ranks wait for orders. They have parts of
  /// variables.
  void capture() {
    if (request_.ranks) request_.ranks->send({.kind = Order::Kind::kCapture});
    prepared_.capture();
  }

  void log_step(const StepRecord& record) {
    const Position position = step_index_.at(record.step);
    steps_ = record.step + 1;
    if (position.last_of_epoch) require_unchanged_data();
    if (record.loss) {
      if (record.step % job_.run.log_every == 0)
        outputs_.metrics->append(plan::Metrics{
            record.step, position.epoch, *record.loss, record.learning_rate, record.seconds,
            record.loss_scale, record.skipped, std::nullopt, record.gradient_norm});
      if (!std::isfinite(*record.loss) && !job_.run.fail_on_nonfinite)
        warning_.say(record.step, text_of_loss(*job_.optimizer, record));
      if (record.skipped) say_skipped(record);
    }
    if (request_.say)
      for (const std::string& remark : prepared_.input_pipeline->remarks_of_streams())
        request_.say(remark);
    if (record.saves) checkpoint_writer_->save(steps_, outputs_.with_logs(record.outputs));
    const bool known = prepared_.end < std::numeric_limits<int64_t>::max();
    if (request_.progress)
      request_.progress(
          {steps_, known ? prepared_.end : 0, position.epoch, record.loss, record.seconds,
           known && step_index_.has_rows() ? step_index_.at(prepared_.end - 1).epoch + 1 : 0});
  }

  void say_skipped(const StepRecord& record) const {
    if (request_.say)
      request_.say(
          fmt::format("{}: step {}: a gradient is not finite at loss scale {}; skipping the update "
                      "and reducing the scale",
                      job_.optimizer->where, record.step, shortest(*record.loss_scale)));
  }

  void save_last(const RunResult& result) {
    capture();
    if (job_.train)
      outcome_.checkpoint = checkpoint_writer_->save_last(result.steps, outputs_.state());
    if (prepared_.save && result.stop != Stop::kSignal) {
      checkpoint_writer_->save_copy(*prepared_.save, result.steps, outputs_.state());
      outcome_.saved = prepared_.save;
    }
  }

  /// Saves the state after a failure outside the calls, because it is still valuable. If everything
  /// was delivered, it is saved as a checkpoint to resume from. Otherwise it is saved separately
  /// from the checkpoints, because a resumed run would never deliver what is missing. Returns a
  /// text about its place, or "" if no state is saved.
  std::string save_after_failure(const RunResult& result) {
    // If a check failed as well, the state is not worth saving.
    if (!job_.train || !result.failure.empty() || result.steps == prepared_.start.first) return {};
    try {
      capture();
      if (result.delivered) {
        checkpoint_writer_->save_last(result.steps, outputs_.state());
        return fmt::format("continue after {} with --resume", steps_text(result.steps));
      }
      return fmt::format("load the state after {} with --load {}",
                         steps_text(checkpoint_writer_->rescue(result.steps)),
                         (request_.directory / kRescued).string());
    } catch (const std::exception&) {
      return {};  // The caller reports the original failure.
    }
  }

  /// Throws the error of `result`, and adds what was saved.
  [[noreturn]] void fail(const RunResult& result) {
    const std::string left = save_after_failure(result);
    try {
      std::rethrow_exception(result.error);
    } catch (const RunError& error) {
      if (left.empty()) throw;
      throw error.hinting(left);
    }
  }

  void conclude(const RunResult& result) {
    outcome_.steps = result.steps;
    outcome_.epochs = step_index_.epochs_after(result.steps);
    outcome_.last_loss = result.last_loss;
    outcome_.seconds = result.seconds;
    outcome_.stop = result.stop;
    if (result.stop == Stop::kHook) {
      outcome_.stopping_hook = outputs_.deliverer->stopping_hook();
      if (outcome_.stopping_hook.empty()) outcome_.stopping_hook = prepared_.called.stopping_hook();
    }
    if (result.first_call_done)
      outcome_.seconds_to_first_step =
          process_age() -
          std::chrono::duration<double>(Clock::now() - *result.first_call_done).count();
    outputs_.say_cost_of_fingerprints(outcome_.seconds);
    write_names_of_rows(result.steps);
    if (result.error) fail(result);
    require_unchanged_data();
    if (!result.cut_short() && followed_.decisions().stops())
      outcome_.early_stop = followed_.decisions().why_it_stops();
    outcome_.error = result.failure;
    const bool looked = std::ranges::any_of(job_.hooks, &plan::Hook::check_finite);
    if (result.last_loss && !std::isfinite(*result.last_loss))
      outcome_.hint = result.without_labels ? kCountLabels : looked ? kCalmDown : kFindNonfinite;
    if (!result.failure.empty())
      outcome_.exit_status = kCheckFailed;
    else if (outcome_.stop == Stop::kSignal)
      // Shells report this status for a death by this signal.
      outcome_.exit_status = 128 + request_.stop_signal();
    // After a failed check the state is not worth saving; the earlier checkpoints remain.
    if (result.failure.empty()) save_last(result);
    outputs_.deliverer->finish(job_.train && outcome_.stop == Stop::kSignal);
  }

  /// Records the error that occurred first. Errors that occur here are ignored.
  void record_failure(const std::exception& error) {
    const auto attempt = [](auto action) {
      try {
        action();
      } catch (const std::exception&) {
      }
    };
    outputs_.deliverer.reset();  // also ends the commands
    if (!home_) return;          // a directory without a plan is not a run directory
    attempt([&] { home_->sync(); });
    attempt([&] { write_record(exit_status_of(error), error.what()); });
  }

  std::string stop_reason(int exit_status) const {
    if (outcome_.stop == Stop::kSignal) return "signal";
    if (outcome_.stop == Stop::kCommand) return "command";
    if (outcome_.stop == Stop::kHook) return "hook: " + outcome_.stopping_hook;
    if (exit_status != kDone) return "failure";
    return outcome_.early_stop.empty() ? "done" : "early_stopping: " + outcome_.early_stop;
  }

  void write_record(int exit_status, const std::string& error) const {
    home_->require();
    plan::RunRecord record = record_of(backend_, request_, prepared_);
    record.started = started_;
    record.last_step = steps_;
    record.epochs = step_index_.epochs_after(steps_);
    record.seconds = outcome_.seconds;
    record.seconds_to_first_step = outcome_.seconds_to_first_step;
    record.stop_reason = stop_reason(exit_status);
    record.exit_status = exit_status;
    record.error = error;
    write_text_atomically(request_.directory / kRunRecord, plan::to_json(record));
  }

  void write_profile() {
    std::vector<const Profile*> profiles = {&*profile_};
    for (const auto& job : prepared_.called.jobs()) profiles.push_back(job->profile());
    const Roof roof =
        plan::has_two_devices(job_) ? Roof() : measure_roof(backend_, job_, request_.threads);
    for (const Profile* profile : profiles) {
      outcome_.profiles.push_back(profile->report());
      outcome_.profiles.back().roof = roof;
    }
    write_text_atomically(request_.directory / "profile.json",
                          trace_json(profiles, outcome_.profiles));
  }

  Backend& backend_;
  const RunRequest& request_;
  const std::vector<data::FileState> data_;
  const plan::Job& job_;  // describes the whole batch
  PreparedRun& prepared_;
  const StepIndex& step_index_;
  std::optional<SameDirectory> home_;
  NonfiniteWarning warning_;
  FollowedValues followed_;
  std::optional<CheckpointWriter> checkpoint_writer_;
  RunOutputs outputs_;
  std::optional<ThreadPool> pool_;
  std::optional<Profile> profile_;
  const std::string started_ = utc_time();
  int64_t steps_;  // complete steps
  RunOutcome outcome_;
};

/// Prepares the run. If it is refused, restores the run directory to its earlier state.
PreparedRun prepare_or_clean(Backend& backend, const RunRequest& request) {
  try {
    return prepare_run(backend, request);
  } catch (...) {
    if (request.tune && !request.resume) remove_tree(request.directory / kAlgorithmsFolder);
    throw;
  }
}

}  // namespace

RunOutcome run(Backend& backend, const RunRequest& request) {
  std::vector<data::FileState> data = states_of_data(request);
  PreparedRun prepared = prepare_or_clean(backend, request);
  return Run(backend, request, prepared, std::move(data)).run();
}

std::vector<JobMemory> dry_run(Backend& backend, const RunRequest& given) {
  RunRequest request = given;
  request.keep_choices = false;
  const PreparedRun prepared = prepare_run(backend, request);
  std::vector<JobMemory> list = {{request.job.name, prepared.program->memory()}};
  for (const auto& job : prepared.called.jobs())
    list.push_back({job->job().name, job->prepared().program->memory()});
  return list;
}

}  // namespace flow::exec
