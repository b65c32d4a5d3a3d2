// All that comes before the first step: data, checkpoints, places to write and programs, each
// refused here or not at all. Writes nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/input/input_pipeline.h"
#include "runtime/exec/run/run.h"
#include "runtime/exec/run/start.h"
#include "runtime/exec/run/sub_jobs.h"
#include "runtime/plan/model/shards.h"

namespace flow::exec {

struct PreparedRun {
  const plan::Job& job;  // as it is prepared: its batch may be cut
  plan::WholeJob whole;  // for the whole batch: what all but the program is of
  Start start;
  int64_t end = 0;                                // the global step at which the run is complete
  std::unique_ptr<InputPipeline> input_pipeline;  // sub-jobs refer to it
  std::vector<Delivery> deliveries;
  std::optional<fs::path> save;  // where the final copy goes
  std::unique_ptr<Program> program;
  SubJobRuns called;  // on the program's variables

  /// Copies the variables of all jobs into the state. Allocates nothing. On several ranks: all of
  /// them call it, and rank 0 gets the variables.
  void capture();
};

/// RunError or RequestError, naming the place in the job file or the flag. On several ranks: they
/// prepare it together, all or none; where it fails, EndedByLeader on those that do not lead.
PreparedRun prepare_run(Backend& backend, const RunRequest& request);

/// The inputs of the request's job that come from a pipe.
std::vector<std::string> streamed_inputs(const RunRequest& request);

/// All ranks get the variables of rank 0, whose state has their current values.
void share_variables(const Ranks& ranks, PreparedRun& prepared);

/// The program of a job, for steps [first, end), on variables that other programs share with it.
/// RequestError where its batch is cut and the backend does not run shards.
std::unique_ptr<Program> prepare_program(Backend& backend, const RunRequest& request,
                                         const plan::Job& job, const InputPipeline& input_pipeline,
                                         const std::vector<Delivery>& deliveries, int64_t first,
                                         int64_t end,
                                         const std::vector<VariableSource>& variable_sources);

/// What this rank reads of the batches of a job.
BatchShare share_of(const RunRequest& request, const plan::Job& job);

/// Where a job's outputs go: below `directory`, its own part of the run's; `first`: the step that
/// it goes on from.
SinkOptions sink_options(const RunRequest& request, const plan::Job& job, const fs::path& directory,
                         int64_t first);

/// The global step at which the job is complete: `run.steps` (or `--steps` in its place) or
/// `run.epochs`, whichever comes first; with neither in the file one pass, or one step. A sliced
/// array ends it too where no dataset is read. The largest number where a stream alone does.
/// RequestError for epochs of a job that reads no dataset.
int64_t end_of_run(const plan::Job& job, const InputPipeline& input_pipeline,
                   std::optional<int64_t> steps);

}  // namespace flow::exec
