// Running a job: what flowrun asks for, and what comes of it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/exit_code.h"
#include "runtime/base/file.h"
#include "runtime/exec/deliver/capture.h"
#include "runtime/exec/input/misreading.h"
#include "runtime/exec/run/backend.h"
#include "runtime/exec/run/fingerprint_file.h"
#include "runtime/exec/run/profile.h"
#include "runtime/exec/run/stop.h"
#include "runtime/plan/model/plan.h"

namespace flow::io {
class Keeper;
}

namespace flow::exec {

class Ranks;

/// What a call tells whoever shows progress. Called from the delivery thread, once a step.
struct Progress {
  int64_t step = 0;   // calls completed, of this job, over all runs
  int64_t steps = 0;  // at which it will stop; 0: a stream tells when it ends
  int64_t epoch = 0;
  std::optional<double> loss;  // train jobs
  double seconds = 0;          // since the first call
  int64_t epochs = 0;          // begun by then; 0: it has no epochs, or no known end
};

struct RunRequest {
  const plan::Plan& plan;
  const plan::Job& job;
  fs::path root = {};       // what paths of the plan are relative to
  fs::path directory = {};  // DIR; exists and is writable
  std::vector<std::pair<std::string, std::string>> inputs = {};  // --input NAME=SPEC, parsed here
  std::vector<std::string> load = {};          // --load: of what several have, the last counts
  std::optional<std::string> save = {};        // --save
  std::vector<std::string> load_partial = {};  // globs: variables that `load` need not have
  bool ema = false;                            // --ema: load averages
  std::optional<int64_t> steps = {};           // --steps
  bool resume = false;
  std::optional<fs::path> tensorboard = {};  // --tensorboard
  bool replaces_events = false;              // --force: what is there of an earlier run goes
  bool restarts = false;                     // --resume that has nothing to resume
  bool verify_data = false;  // --verify-data: read all data files again, unchanged ones too
  int threads = 0;
  bool eager = false, profile = false, fuse = true;  // as in PrepareOptions
  bool tune = false;                                 // choose algorithms by time
  std::optional<int64_t> permute_rows = {};          // --permute-rows: a seed
  bool keep_choices = true;                          // in DIR
  std::vector<std::string> overrides = {};           // for run.json
  std::FILE* out = nullptr;                          // print sinks
  bool json = false;                                 // print sinks write objects
  bool print_steps = false;  // their lines begin with the step, where they do not say
  bool commands = true;      // command sinks run
  std::function<void(const Progress&)> progress = {};  // may be empty
  /// One-off remarks: "the last batch of 40 rows is dropped". May be empty.
  std::function<void(const std::string&)> say = {};
  /// Checked between steps: a signal number asks the run to finish the step, save and stop.
  std::function<int()> stop_signal = {};
  const io::Keeper* keeper = nullptr;      // ends commands when this process is killed; may be null
  Ranks* ranks = nullptr;                  // of a distributed run; null: this process is alone
  std::vector<std::string> streamed = {};  // inputs that only rank 0 reads; for other ranks
  Misreading misread = {};                 // not by the jobs that it calls
  std::optional<FingerprintOptions> fingerprints = {};  // of the job itself
  std::optional<CaptureRequest> capture = {};           // likewise; the run ends after its step
};

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
