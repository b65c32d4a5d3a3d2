// All that comes before the first step: data, checkpoints, places to write and programs, each
// refused here or not at all. Writes nothing.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/checkpoint/load.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/state.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/input/data_files.h"
#include "runtime/exec/input/input_pipeline.h"
#include "runtime/exec/input/source.h"
#include "runtime/exec/run/run.h"
#include "runtime/exec/run/sub_jobs.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/model/shards.h"

namespace flow::exec {

/// Where a run starts: at step 0, or where the run that it resumes ended.
struct Start {
  State state = {};                                // of the variables of all jobs
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

struct PreparedRun : PreparedJob {
  /// Opens the data of the job and of those that it calls.
  /// `request` outlives it.
  explicit PreparedRun(const RunRequest& request);

  Start start = {};
  int64_t end = 0;                    // the global step at which the run is complete
  std::optional<fs::path> save = {};  // where the final copy goes
  SubJobRuns called;                  // on the program's variables; they refer to its data

  /// Copies the variables of all jobs into the state. Allocates nothing. On several ranks: all of
  /// them call it, and rank 0 gets the variables.
  void capture();
};

/// The start of a resumed run, at its newest checkpoint; jobs that it calls continue there, too.
/// RequestError where that is missing, or of another job, other data or other outputs.
Start start_resumed(const RunRequest& request, State state, PreparedRun& run);

/// RunError or RequestError, naming the place in the job file or the flag. On several ranks: they
/// prepare it together, all or none; where it fails, EndedByLeader on those that do not lead.
PreparedRun prepare_run(Backend& backend, const RunRequest& request);

/// The inputs of the request's job that come from a pipe.
std::vector<std::string> streamed_inputs(const RunRequest& request);

/// All ranks get the variables of rank 0, whose state has their current values.
void share_variables(const Ranks& ranks, PreparedRun& prepared);

/// Makes the program of a job, for steps [first, end), on variables that other programs share with
/// it. RequestError where its batch is cut and the backend does not run shards.
void prepare_program(Backend& backend, const RunRequest& request, PreparedJob& prepared,
                     int64_t first, int64_t end,
                     const std::vector<VariableSource>& variable_sources);

/// Where a job's outputs go: below `directory`, its own part of the run's; `first`: the step that
/// it goes on from. `metrics` and `tensorboard`: of the run; they outlive the result and may be
/// null.
SinkOptions sink_options(const RunRequest& request, const plan::Job& job, const fs::path& directory,
                         int64_t first, MetricsLog* metrics, TensorBoard* tensorboard);

/// The global step at which the job is complete: `run.steps` (or `--steps` in its place) or
/// `run.epochs`, whichever comes first; with neither in the file one pass, or one step. A sliced
/// array ends it too where no dataset is read. The largest number where a stream alone does.
/// RequestError for epochs of a job that reads no dataset.
int64_t end_of_run(const plan::Job& job, const InputPipeline& input_pipeline,
                   std::optional<int64_t> steps);

/// Says what looks like a mistake, or costs more than expected: values that are not finite, layers
/// that nobody trains, dropped rows, hooks that never fire or write much. REQUIRES: request.say.
void say_remarks(const RunRequest& request, const Backend& backend, const PreparedRun& prepared);

/// What the variables are loaded from: `--load`, else the file's words; nothing where it is
/// "none". RequestError where "none" is one of several.
std::vector<LoadedPath> loaded_from(const RunRequest& request);

/// What a run of this request reads: data, the checkpoint, arrays that variables start with.
/// RequestError where an `--input` cannot be read.
std::vector<fs::path> paths_read(const RunRequest& request);

/// Where `save` goes, links followed. RequestError when it is there and no checkpoint, is a file's
/// name, or cannot be written.
std::optional<fs::path> save_target(const RunRequest& request);

}  // namespace flow::exec
