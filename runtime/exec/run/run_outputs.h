// What a run writes as it goes: values for its sinks, metrics, events for TensorBoard,
// fingerprints.
#pragma once

#include <optional>

#include "runtime/exec/core/fingerprint_file.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/deliver/metrics_log.h"
#include "runtime/exec/events/tensorboard.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/run.h"

namespace flow::exec {

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
