// The request that flowrun makes to run a job, and the reasons why a run ends early.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/core/fingerprints.h"
#include "runtime/plan/model/plan.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::io {
class Watchdog;
}

namespace flow::exec {

/// The event that asks a run to end before its last step.
enum class Stop : uint8_t {
  kNone,
  kSignal,
  kCommand,  // the command of a hook
  kHook      // the condition of a hook
};

/// Returns the reason to stop that `signal` reports. `signal` returns the number of a signal, or 0
/// for none, and may be empty.
inline Stop stop_for(const std::function<int()>& signal) {
  return signal && signal() != 0 ? Stop::kSignal : Stop::kNone;
}

class Ranks;

/// The argument of `--capture ENTRY@STEP`.
struct CaptureRequest {
  /// The name of a step of the plan, of a tensor that a step makes, or the beginning of the names
  /// of forward steps: "lenet/conv1/conv", "lenet/conv1".
  std::string entry;
  int64_t step = 0;
};

/// A deliberate deviation of what a run reads from its plan. `flowrun verify --prove` plants it and
/// checks that comparisons of runs detect it.
struct Misreading {
  uint64_t seed = 0;  // added to the seed of randomly drawn inputs and of shuffles
  int64_t steps = 0;  // added to the step whose batch is read
};

/// The progress of a run. The delivery thread reports it once per step.
struct Progress {
  int64_t step = 0;   // completed calls of this job, over all runs that it was resumed from
  int64_t steps = 0;  // the step at which it will stop; 0 if it stops at the end of a stream
  int64_t epoch = 0;
  std::optional<double> loss;  // only for train jobs
  double seconds = 0;          // time since the first call
  int64_t epochs = 0;          // the epochs begun at its end; 0 if it has no epochs or no known end
};

/// The values of flowrun's flags for a run, as given.
struct RunFlags {
  std::vector<std::string> load = {};  // if several paths have a variable, the last one is used
  std::vector<std::string> load_partial = {};  // globs of variables that may be missing in `load`
  std::optional<std::string> save = {};
  bool ema = false;  // loads averaged variables
  std::optional<int64_t> steps = {};
  bool resume = false;
  bool force = false;                           // removes the files of an earlier run
  bool verify_data = false;                     // reads all data files again, even unchanged ones
  std::optional<std::string> tensorboard = {};  // the directory for events
  int threads = 0;
  bool eager = false, profile = false;       // same as in PrepareOptions
  bool tune = false;                         // chooses algorithms by measured time
  std::optional<int64_t> permute_rows = {};  // the seed for permuting rows
  bool json = false;                         // print sinks write JSON objects
};

struct RunRequest : RunFlags {
  RunRequest(const plan::Plan& of, const plan::Job& wanted, fs::path base, fs::path run = {})
      : plan(of), job(wanted), root(std::move(base)), directory(std::move(run)) {}

  const plan::Plan& plan;
  const plan::Job& job;
  fs::path root = {};       // the base of relative paths in the plan
  fs::path directory = {};  // the run directory, which exists and is writable
  /// The parsed --input NAME=SPEC flags.
  std::vector<std::pair<std::string, std::string>> inputs = {};
  bool restarts = false;                    // `--resume` was given, but there is nothing to resume
  bool fuse = true;                         // same as in PrepareOptions
  bool keep_choices = true;                 // stores the chosen algorithms in the run directory
  std::vector<std::string> overrides = {};  // recorded in run.json
  std::FILE* out = nullptr;                 // the output of print sinks
  bool print_steps = false;  // printed lines begin with the step, unless their format contains it
  bool commands = true;      // runs command sinks
  std::function<void(const Progress&)> progress = {};  // may be empty
  /// Prints a single remark, such as "the last batch of 40 rows is dropped". May be empty.
  std::function<void(const std::string&)> say = {};
  /// Checked between steps: returns the number of a signal if the run is to finish the step, save
  /// and stop. Otherwise returns 0.
  std::function<int()> stop_signal = {};
  const io::Watchdog* watchdog = nullptr;  // ends commands if this process is killed; may be null
  Ranks* ranks = nullptr;  // the ranks of a distributed run; null if this process is the only rank
  std::vector<std::string> streamed = {};  // the inputs that rank 0 reads for this rank
  Misreading misread = {};                 // does not affect jobs that this job calls
  std::optional<FingerprintOptions> fingerprints = {};  // taken only in the job itself
  std::optional<CaptureRequest> capture = {};  // a step of the job itself; the run ends after it
};

/// Returns the job and the jobs that it calls.
inline std::vector<const plan::Job*> jobs_of(const RunRequest& request) {
  std::vector<const plan::Job*> jobs = plan::sub_jobs_of(request.plan, request.job);
  jobs.insert(jobs.begin(), &request.job);
  return jobs;
}

}  // namespace flow::exec
