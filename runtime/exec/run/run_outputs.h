// What a run writes: its plan and the record of what ran where, and as it goes values for its
// sinks, metrics, events for TensorBoard, fingerprints. What it keeps of its state: checkpoints,
// the copy that `--save` asks for, what a failed run leaves.
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

/// RequestError where a path that the plan of the run names is not UTF-8, which JSON requires.
/// `request.directory` may be empty: then it is a directory in `runs`.
void require_utf8_paths(const RunRequest& request);

/// The plan as it ran, with the root relative to the run: a project that moves takes its runs
/// along.
void write_plan(const RunRequest& request);

/// Does it keep metrics? A train job has losses, and any job what its print sinks reduce.
bool has_metrics(const RunRequest& request);

/// All that is known of a run but how far it came and how it ended.
plan::RunRecord record_of(const Backend& backend, const RunRequest& request,
                          const PreparedRun& prepared);

class RunOutputs {
 public:
  /// Both outlive it.
  RunOutputs(const RunRequest& request, PreparedRun& prepared);

  /// Creates the files, or continues those of the run that is resumed, and starts the commands;
  /// also for jobs that this one calls. RunError where that fails.
  void open();
  /// What a checkpoint keeps of the outputs after its step.
  OutputState state() const { return with_logs(deliverer->outputs()); }
  /// Adds the metrics, and the outputs of the jobs that are called: nobody writes them while the
  /// steps of this one are delivered.
  OutputState with_logs(OutputState state) const;
  /// `seconds`: of all steps.
  void say_cost_of_fingerprints(double seconds) const;
  /// Closes all files. RunError where the system could not keep what was written.
  void close();

  std::optional<TensorBoard> tensorboard;
  std::optional<MetricsLog> metrics;
  std::optional<Deliverer> deliverer;  // after open(): always there
  std::optional<FingerprintWriter> fingerprints;

 private:
  void open_tensorboard();
  void open_fingerprints();

  const RunRequest& request_;
  const plan::Job& job_;  // for the whole batch
  PreparedRun& prepared_;
};

/// The remedy where a run trained something that is not finite.
inline constexpr const char* kFindNonfinite =
    "try a smaller learning rate; to find the first such tensor, add "
    "`hooks: [{watch: '**', check: finite, to: none}]`";

/// `on_nonfinite: warn`: says it once a run, for what follows is no news.
class NonfiniteWarning {
 public:
  explicit NonfiniteWarning(const RunRequest& request) : request_(request) {}
  /// `found`: "the loss `loss` is nan".
  void say(int64_t step, const std::string& found);

 private:
  const RunRequest& request_;
  bool said_ = false;
};

/// Saves the state of `prepared` as the steps go by; it is the caller who captures it there. What
/// is not finite is not saved where that fails a run: RunError with kCheckFailed.
class CheckpointWriter {
 public:
  /// `home`: the directory of the run, in which alone its checkpoints are written. `metrics`
  /// and `tensorboard`: the run's, as soon as it has some. `decisions`: as they are when a
  /// checkpoint is written.
  CheckpointWriter(const RunRequest& request, const PreparedRun& prepared,
                   const SameDirectory& home, const std::optional<MetricsLog>& metrics,
                   std::optional<TensorBoard>& tensorboard, const Decisions& decisions,
                   NonfiniteWarning& warning);

  /// Is a checkpoint wanted after step `step`? It is asked only where it is then saved: an interval
  /// of time begins with the answer.
  bool wanted_after(int64_t step);
  /// Writes the checkpoint after so many steps, and removes those beyond what is to be kept.
  /// `outputs`: as they are then.
  void save(int64_t steps, const OutputState& outputs);
  /// Writes the state after `steps` complete steps as the best. Earlier best states stay until the
  /// next save: a run that resumes from before this one needs them.
  void save_best(int64_t steps, const OutputState& outputs) const;
  /// Removes those beyond what is to be kept, of an earlier run too.
  void prune() const;
  /// The state changed since it was saved, though no step was made.
  void changed() { kept_.reset(); }
  /// The last checkpoint, where it is not there already; returns its place.
  fs::path save_last(int64_t steps, const OutputState& outputs);
  /// The copy for `--save`.
  void save_copy(const fs::path& path, int64_t steps, const OutputState& outputs) const;
  /// For `--load`, beside the checkpoints: the outputs of its last steps are lost, so that no run
  /// may go on from it. Returns the step of what is there then: a start that got further before is
  /// worth more.
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
  std::optional<int64_t> kept_;     // the step whose state the newest checkpoint holds
  std::optional<int64_t> rolling_;  // of this run's last checkpoint by time, to be replaced
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();  // by time
};

}  // namespace flow::exec
