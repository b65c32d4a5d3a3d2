// Runs a job and returns the outcome.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/profile.h"
#include "runtime/exec/core/run_request.h"

namespace flow::exec {

struct RunOutcome {
  int exit_status = kDone;  // kDone, kCheckFailed, or 128 plus the signal that stopped the run
  std::string error;        // the error, if the exit status is 1
  std::string hint;         // how to fix the error; may be empty
  int64_t first_step = 0;   // the first step of this run: not 0 if it was resumed
  int64_t steps = 0;        // the global step reached
  int64_t epochs = 0;
  std::optional<double> last_loss;
  double seconds = 0;                  // time of all calls
  double seconds_to_first_step = 0;    // time since the start of the process
  std::optional<fs::path> checkpoint;  // the last state, if it was saved
  std::optional<fs::path> saved;       // the copy that `save` requested
  Stop stop = Stop::kNone;             // the reason why it ended before its last step
  std::string stopping_hook;           // the hook whose condition ended the run, or empty
  std::string early_stop;              // the reason why `early_stopping` ended the run, or empty
  std::vector<ProfileReport> profiles = {};  // if requested: the job, then the called jobs

  bool interrupted() const { return stop != Stop::kNone; }
};

/// Runs a job. Everything that can be refused is refused before the first step, and then the run
/// directory is unchanged: inputs, data files, the checkpoint, paths that cannot be written. Writes
/// run.json last; if an exception is thrown, run.json contains the error. Throws RunError.
RunOutcome run(Backend& backend, const RunRequest& request);

struct JobMemory {
  std::string job;
  MemoryReport memory;  // excludes variables of jobs that precede it in the list
};

/// Implements `--dry-run`: does everything that precedes the first step, and returns the memory
/// that the job and then each job that it calls would need.
std::vector<JobMemory> dry_run(Backend& backend, const RunRequest& request);

}  // namespace flow::exec
