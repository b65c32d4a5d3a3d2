// Where a run starts: with variables that are drawn or loaded, or at its newest checkpoint.
#pragma once

#include <cstdint>
#include <future>
#include <vector>

#include "runtime/exec/core/state.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/input/data_files.h"
#include "runtime/exec/input/step_index.h"
#include "runtime/exec/run/run.h"
#include "runtime/exec/run/sub_jobs.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

/// Where a run starts: at step 0, or where the run that it resumes ended.
struct Start {
  State state;                                     // of the variables of all jobs
  int64_t first = 0;                               // the first global step
  Sums sums = {};                                  // that print sinks of a resumed run continue
  int64_t metrics_rows = 0;                        // of metrics.jsonl that a resumed run keeps
  DataFiles data = {};                             // of train jobs
  plan::DecisionRecords decisions = {};            // of a resumed run
  std::optional<io::RecordedFiles> recorded = {};  // likewise; nothing where it does not say
};

/// Starts to draw the initial values where nothing is loaded, which takes a tenth of a second for
/// MNIST: on a thread or, where there is none to spare, when they are waited for.
std::future<State> begin_drawing(const RunRequest& request);

/// The start of a new run. RequestError where the request does not say what its variables start
/// with, or where that cannot be loaded.
Start start_new(const RunRequest& request, std::future<State> drawn);

/// The start of a resumed run, at its newest checkpoint; `called` continue there, too.
/// RequestError where that is missing, or of another job, other data or other outputs.
Start start_resumed(const RunRequest& request, State state, const StepIndex& step_index,
                    SubJobRuns& called, const std::vector<Delivery>& deliveries);

}  // namespace flow::exec
