// Running a job, and what comes of it.
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
  int exit_status = kDone;  // or kCheckFailed, or 128 and the signal that stopped it
  std::string error;        // what failed, for exit status 1
  std::string hint;         // what to do about that; may be empty
  int64_t first_step = 0;   // taken by this run: not 0 where it was resumed
  int64_t steps = 0;        // global step reached
  int64_t epochs = 0;
  std::optional<double> last_loss;
  double seconds = 0;                        // of all calls
  double seconds_to_first_step = 0;          // from the start of the process
  std::optional<fs::path> checkpoint;        // the last state, where it was left
  std::optional<fs::path> saved;             // the copy that `save` asked for
  Stop stop = Stop::kNone;                   // what ended it before its last step
  std::string stopping_hook;                 // whose condition ended it; else empty
  std::string early_stop;                    // why `early_stopping` ended it; else empty
  std::vector<ProfileReport> profiles = {};  // where asked for: of the job, of those it called

  bool interrupted() const { return stop != Stop::kNone; }
};

/// Everything that can be refused is refused before the first step, with DIR left as it was:
/// inputs, data files, the checkpoint, places that cannot be written. Then runs, and writes
/// run.json last (with the error too, if one is thrown). Throws RunError.
RunOutcome run(Backend& backend, const RunRequest& request);

struct JobMemory {
  std::string job;
  MemoryReport memory;  // without variables that a job before it in the list has
};

/// `--dry-run`: does all that comes before the first step; returns what memory it would take: of
/// the job, then of those that it calls.
std::vector<JobMemory> dry_run(Backend& backend, const RunRequest& request);

}  // namespace flow::exec
