// What a run keeps of its state: checkpoints, the copy that `--save` asks for, what a failed run
// leaves.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/file.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/events/tensorboard.h"
#include "runtime/exec/run/decisions.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/run.h"
#include "runtime/io/checkpoint_folder.h"

namespace flow::exec {

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
