// What a run writes: its plan and the record of what ran where, and as it goes values for its
// sinks, metrics, events for TensorBoard, fingerprints.
#pragma once

#include <optional>

#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/fingerprints.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/events/tensorboard.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/run.h"
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

}  // namespace flow::exec
