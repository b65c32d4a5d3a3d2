// All that comes before the first step: data, checkpoints, places to write and the program, each
// refused here or not at all. Writes nothing.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/checkpoint/state.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/input/data_files.h"
#include "runtime/exec/input/input_pipeline.h"
#include "runtime/exec/run/backend.h"
#include "runtime/exec/run/run.h"
#include "runtime/exec/run/sub_jobs.h"

namespace flow::exec {

struct Preparation {
  /// RunError or RequestError, naming the place in the job file or the flag.
  Preparation(Backend& backend, const RunRequest& request);

  State state;  // what the program's variables start with
  /// Draws them while the data are opened, where nothing is loaded: each takes a tenth of a second
  /// for MNIST.
  std::future<void> drawn;
  InputPipeline feed;
  int64_t first = 0;             // the first global step: not 0 in a resumed run
  int64_t end = 0;               // the global step at which the run is complete
  Sums sums;                     // that print sinks of a resumed run go on from
  int64_t metrics_rows = 0;      // of metrics.jsonl that a resumed run keeps
  std::optional<fs::path> save;  // where the final copy goes
  DataFiles data;                // of train jobs
  std::vector<Delivery> deliveries;
  std::unique_ptr<Program> program;
  SubJobRuns called;

  /// Copies the variables of all jobs into `state`. Allocates nothing.
  void capture();

 private:
  const plan::Job& job_;
  void start_variables(const RunRequest& request);
  void resume_from(const RunRequest& request);
  void say_remarks(const RunRequest& request) const;
  void say_nonfinite(const RunRequest& request) const;
  void say_nonfinite_data(const RunRequest& request) const;
  void say_untrained(const RunRequest& request) const;
};

/// The program of a job, for steps [first, end), on variables that other programs share with it.
std::unique_ptr<Program> prepare_program(Backend& backend, const RunRequest& request,
                                         const plan::Job& job, const InputPipeline& feed,
                                         const std::vector<Delivery>& deliveries, int64_t first,
                                         int64_t end,
                                         const std::vector<VariableSource>& variable_sources);

/// Where a job's outputs go: below `directory`, its own part of the run's; `first`: the step that
/// it goes on from.
SinkOptions sink_options(const RunRequest& request, const plan::Job& job, const fs::path& directory,
                         int64_t first);

/// The global step at which the job is complete: `run.steps` (or `--steps` in its place) or
/// `run.epochs`, whichever comes first; with neither in the file one pass, or one step. A sliced
/// array ends it too where no dataset is read. The largest number where a stream alone does.
/// RequestError for epochs of a job that reads no dataset.
int64_t end_of_run(const plan::Job& job, const InputPipeline& feed, std::optional<int64_t> steps);

}  // namespace flow::exec
