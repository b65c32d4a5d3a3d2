// Everything that happens before the first step: data, checkpoints, output paths and programs are
// checked here or never. Writes no files.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/state.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/input/input_pipeline.h"
#include "runtime/exec/input/source.h"
#include "runtime/exec/run/run.h"
#include "runtime/exec/run/sub_jobs.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/model/shards.h"

namespace flow::exec {

/// The start of a run: step 0, or the step where the run that it resumes ended.
struct Start {
  State state = {};                      // the variables of all jobs
  int64_t first = 0;                     // the first global step
  Sums sums = {};                        // sums of print sinks that a resumed run continues
  int64_t metrics_rows = 0;              // lines of metrics.jsonl that a resumed run keeps
  DataFiles data = {};                   // only for train jobs
  plan::DecisionRecords decisions = {};  // set for a resumed run
  std::optional<io::RecordedFiles> recorded = {};  // set if the resumed checkpoint lists them
};

/// Starts to draw the initial values if nothing is loaded, which takes a tenth of a second for
/// MNIST. This happens on another thread or, if the system cannot create one, when the result is
/// requested.
std::future<State> begin_drawing(const RunRequest& request);

/// Returns the start of a new run. Throws RequestError if the request does not specify the initial
/// values of its variables, or if they cannot be loaded.
Start start_new(const RunRequest& request, std::future<State> drawn);

struct PreparedRun : PreparedJob {
  /// Opens the data of the job and of the jobs that it calls. `request` must outlive the object.
  explicit PreparedRun(const RunRequest& request);

  Start start = {};
  int64_t end = 0;                    // the global step at which the run is complete
  std::optional<fs::path> save = {};  // the path of the final copy
  data::Learned learned;              // the values of columns of all jobs
  SubJobRuns called;  // their programs use the program's variables, and they refer to its data

  /// Copies the variables of all jobs into the state. Allocates nothing. If there are several
  /// ranks, all of them call it, and rank 0 receives the variables.
  void capture();

 private:
  PreparedRun(const RunRequest& request, data::Learned known);
};

/// Returns what columns learned in the run that is resumed, or in the runs whose variables are
/// loaded. Empty if no job of the request has columns that learn. Throws RequestError if the file
/// of a checkpoint is damaged.
data::Learned learned_before(const RunRequest& request);

/// Returns the start of a resumed run, at its newest checkpoint; the jobs that it calls continue
/// there, too. Throws RequestError if the checkpoint is missing, or belongs to another job, other
/// data or other outputs.
Start start_resumed(const RunRequest& request, State state, PreparedRun& run);

/// Prepares a run. Throws RunError or RequestError naming the place in the job file or the flag.
/// Several ranks prepare it together, and either all succeed or none; on failure, ranks that do not
/// lead throw EndedByLeader.
PreparedRun prepare_run(Backend& backend, const RunRequest& request);

/// Returns the inputs of the request's job that come from a pipe.
std::vector<std::string> streamed_inputs(const RunRequest& request);

/// Sends the variables of rank 0, whose state must have their current values, to all ranks.
void share_variables(const Ranks& ranks, PreparedRun& prepared);

/// Makes the program of a job, for steps [first, end). It shares variables with `variable_sources`.
/// Throws RequestError if the job's batch is divided and the backend does not support shards.
void prepare_program(Backend& backend, const RunRequest& request, PreparedJob& prepared,
                     int64_t first, int64_t end,
                     const std::vector<VariableSource>& variable_sources);

/// Returns the options for a job's outputs, which go below `directory`, the job's part of the run
/// directory. The job continues from step `first`. `metrics` and `tensorboard` are those of the
/// run; they must outlive the result and may be null.
SinkOptions sink_options(const RunRequest& request, const plan::Job& job, const fs::path& directory,
                         int64_t first, MetricsLog* metrics, TensorBoard* tensorboard);

/// Returns the global step at which the job is complete: `run.steps` (or `--steps` in its place) or
/// `run.epochs`, whichever comes first. If the file specifies neither, it is one pass over the
/// data, or one step. The end of a sliced array also limits it if no dataset is read. It is the
/// largest int64_t if only a stream ends the job. Throws RequestError for epochs of a job that
/// reads no dataset.
int64_t end_of_run(const plan::Job& job, const InputPipeline& input_pipeline,
                   std::optional<int64_t> steps);

/// Prints remarks about probable mistakes and unexpected costs: values that are not finite, layers
/// that no job trains, dropped rows, hooks that never fire or that write much. REQUIRES:
/// request.say is not empty.
void say_remarks(const RunRequest& request, const Backend& backend, const PreparedRun& prepared);

/// Returns the paths from which variables are loaded: those of `--load`, otherwise those in the job
/// file; empty for "none". Throws RequestError if "none" is one of several.
std::vector<LoadedPath> loaded_from(const RunRequest& request);

/// Returns the paths that a run of this request reads: data, checkpoints, and arrays with initial
/// values. Throws RequestError if an `--input` cannot be read.
std::vector<fs::path> paths_read(const RunRequest& request);

/// Returns the path to which `save` writes, after links are resolved. Throws RequestError if the
/// path exists and is not a checkpoint, has the suffix of a file, or cannot be written.
std::optional<fs::path> save_target(const RunRequest& request);

}  // namespace flow::exec
