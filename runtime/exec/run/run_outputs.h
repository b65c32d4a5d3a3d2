// The files that a run writes: its plan, the record of what ran where, and during the steps values
// for its sinks, metrics, events for TensorBoard, and fingerprints. Also the states that it saves:
// checkpoints, the copy that `--save` requests, and the state that a failed run leaves.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/fingerprints.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/events/tensorboard.h"
#include "runtime/exec/run/decisions.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/run.h"
#include "runtime/io/checkpoint_folder.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

/// Throws RequestError if a path that the run's plan names is not UTF-8, which JSON requires.
/// `request.directory` may be empty and then stands for a directory in `runs`.
void require_utf8_paths(const RunRequest& request);

/// Writes the plan that runs. Its root is relative to the run directory, so that a project can be
/// moved together with its runs.
void write_plan(const RunRequest& request);

/// Returns true if the run writes metrics: a train job has losses, and every job has the values
/// that its print sinks reduce.
bool has_metrics(const RunRequest& request);

/// Returns a record with everything about a run except its progress and its end.
plan::RunRecord record_of(const Backend& backend, const RunRequest& request,
                          const PreparedRun& prepared);

class RunOutputs {
 public:
  /// `request` and `prepared` must outlive it.
  RunOutputs(const RunRequest& request, PreparedRun& prepared);

  /// Creates the output files, or continues those of the run that is resumed, and starts the
  /// commands, also for the jobs that this job calls. Throws RunError on failure.
  void open();
  /// The state of the outputs that a checkpoint stores after its step.
  OutputState state() const { return with_logs(deliverer->outputs()); }
  /// Adds the metrics, and the outputs of the called jobs, which no thread writes while the steps
  /// of this job are delivered.
  OutputState with_logs(OutputState state) const;
  /// Prints the cost of fingerprints. `seconds` is the time of all steps.
  void say_cost_of_fingerprints(double seconds) const;
  /// Closes all files. Throws RunError if the system could not store what was written.
  void close();

  std::optional<TensorBoard> tensorboard;
  std::optional<MetricsLog> metrics;
  std::optional<Deliverer> deliverer;  // has a value after open()
  std::optional<FingerprintWriter> fingerprints;

 private:
  void open_tensorboard();
  void open_fingerprints();

  const RunRequest& request_;
  const plan::Job& job_;  // describes the whole batch
  PreparedRun& prepared_;
};

/// The remedy if a run trained a variable to a value that is not finite.
inline constexpr const char* kFindNonfinite =
    "try a smaller learning rate; to find the first such tensor, add "
    "`hooks: [{watch: '**', check: finite, to: none}]`";

/// Implements `on_nonfinite: warn`: prints the warning once per run, because later values are
/// usually not finite either.
class NonfiniteWarning {
 public:
  explicit NonfiniteWarning(const RunRequest& request) : request_(request) {}
  /// `found` is a text such as "the loss `loss` is nan".
  void say(int64_t step, const std::string& found);

 private:
  const RunRequest& request_;
  bool said_ = false;
};

/// Saves the state of `prepared` during a run; the caller captures it first. If `on_nonfinite`
/// fails the run, values that are not finite are not saved; RunError with kCheckFailed is thrown
/// instead.
class CheckpointWriter {
 public:
  /// `home` is the directory of the run; checkpoints are written only in it. `metrics` and
  /// `tensorboard` are those of the run and may be set later. `decisions` are read when a
  /// checkpoint is written.
  CheckpointWriter(const RunRequest& request, const PreparedRun& prepared,
                   const SameDirectory& home, const std::optional<MetricsLog>& metrics,
                   std::optional<TensorBoard>& tensorboard, const Decisions& decisions,
                   NonfiniteWarning& warning);

  /// Returns true if a checkpoint is due after step `step`. Must be called only if the state is
  /// then saved, because an answer of true starts the next interval of time.
  bool wanted_after(int64_t step);
  /// Writes the checkpoint after `steps` steps, and removes checkpoints beyond the number to keep.
  /// `outputs` is the state of the outputs after these steps.
  void save(int64_t steps, const OutputState& outputs);
  /// Writes the state after `steps` complete steps as the best one. Earlier best states stay until
  /// the next save, because a run that resumes from an earlier checkpoint needs them.
  void save_best(int64_t steps, const OutputState& outputs) const;
  /// Removes checkpoints beyond the number to keep, including those of an earlier run.
  void prune() const;
  /// Reports that the state changed since it was saved, although no step was made.
  void changed() { kept_.reset(); }
  /// Saves the last checkpoint if it does not exist yet, and returns its path.
  fs::path save_last(int64_t steps, const OutputState& outputs);
  /// Writes the copy for `--save`.
  void save_copy(const fs::path& path, int64_t steps, const OutputState& outputs) const;
  /// Saves the state for `--load`, separately from the checkpoints: the outputs of its last steps
  /// are lost, so that no run may resume from it. Returns the step of the state that is then
  /// stored, which is that of an earlier start if it got further.
  int64_t rescue(int64_t steps);

 private:
  plan::CheckpointRecord record(int64_t steps, const Sums& sums) const;
  plan::FilesRecord files(const OutputState& outputs) const;
  void check_trained(int64_t steps) const;
  bool has_time_passed();
  int64_t rescued_step() const;

  const RunRequest& request_;
  const plan::Job& job_;
  const PreparedRun& prepared_;
  const SameDirectory& home_;
  const std::optional<MetricsLog>& metrics_;
  std::optional<TensorBoard>& tensorboard_;
  const Decisions& decisions_;
  NonfiniteWarning& warning_;
  const io::CheckpointFolder folder_, best_;
  const std::string plan_hash_, resume_hash_;
  std::optional<int64_t> kept_;  // the step whose state the newest checkpoint contains
  /// The step of this run's last rolling checkpoint, which the next one replaces.
  std::optional<int64_t> rolling_;
  /// The time of the last checkpoint that was due by time.
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace flow::exec
