// What flowrun asks for when it runs a job, and why it ends early.
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

/// What asks a run to end before its last step.
enum class Stop : uint8_t { kNone, kSignal, kCommand /* of a hook */, kHook /* its condition */ };

/// Of a function that returns the signal to stop for, or 0, and may be empty.
inline Stop stop_for(const std::function<int()>& signal) {
  return signal && signal() != 0 ? Stop::kSignal : Stop::kNone;
}

class Ranks;

/// `--capture ENTRY@STEP`.
struct CaptureRequest {
  /// A step of the plan, a tensor that a step makes, or what the names of forward steps begin with:
  /// "lenet/conv1/conv", "lenet/conv1".
  std::string entry;
  int64_t step = 0;
};

/// What a run reads otherwise than its plan says. `flowrun verify --prove` plants it, and tries
/// whether comparisons of runs notice it.
struct Misreading {
  uint64_t seed = 0;  // added to the seed of inputs that are drawn, and of shuffles
  int64_t steps = 0;  // added to the step whose batch is read
};

/// What a call tells whoever shows progress. Called from the delivery thread, once a step.
struct Progress {
  int64_t step = 0;   // calls completed, of this job, over all runs
  int64_t steps = 0;  // at which it will stop; 0: a stream tells when it ends
  int64_t epoch = 0;
  std::optional<double> loss;  // train jobs
  double seconds = 0;          // since the first call
  int64_t epochs = 0;          // begun by then; 0: it has no epochs, or no known end
};

/// What flags of flowrun say of a run, as they are given.
struct RunFlags {
  std::vector<std::string> load = {};          // of what several have, the last counts
  std::vector<std::string> load_partial = {};  // globs: variables that `load` need not have
  std::optional<std::string> save = {};
  bool ema = false;  // load averages
  std::optional<int64_t> steps = {};
  bool resume = false;
  bool force = false;                           // what is there of an earlier run goes
  bool verify_data = false;                     // read all data files again, unchanged ones too
  std::optional<std::string> tensorboard = {};  // the directory
  int threads = 0;
  bool eager = false, profile = false;       // as in PrepareOptions
  bool tune = false;                         // choose algorithms by time
  std::optional<int64_t> permute_rows = {};  // a seed
  bool json = false;                         // print sinks write objects
};

struct RunRequest : RunFlags {
  RunRequest(const plan::Plan& of, const plan::Job& wanted, fs::path base, fs::path run = {})
      : plan(of), job(wanted), root(std::move(base)), directory(std::move(run)) {}

  const plan::Plan& plan;
  const plan::Job& job;
  fs::path root = {};       // what paths of the plan are relative to
  fs::path directory = {};  // DIR; exists and is writable
  std::vector<std::pair<std::string, std::string>> inputs = {};  // --input NAME=SPEC, parsed here
  bool restarts = false;                    // --resume that has nothing to resume
  bool fuse = true;                         // as in PrepareOptions
  bool keep_choices = true;                 // in DIR
  std::vector<std::string> overrides = {};  // for run.json
  std::FILE* out = nullptr;                 // print sinks
  bool print_steps = false;  // their lines begin with the step, where they do not say
  bool commands = true;      // command sinks run
  std::function<void(const Progress&)> progress = {};  // may be empty
  /// One-off remarks: "the last batch of 40 rows is dropped". May be empty.
  std::function<void(const std::string&)> say = {};
  /// Checked between steps: a signal number asks the run to finish the step, save and stop.
  std::function<int()> stop_signal = {};
  const io::Watchdog* watchdog = nullptr;  // ends commands when this process is killed; may be null
  Ranks* ranks = nullptr;                  // of a distributed run; null: this process is alone
  std::vector<std::string> streamed = {};  // inputs that only rank 0 reads; for other ranks
  Misreading misread = {};                 // not by the jobs that it calls
  std::optional<FingerprintOptions> fingerprints = {};  // of the job itself
  std::optional<CaptureRequest> capture = {};           // likewise; the run ends after its step
};

/// The job and those that it calls.
inline std::vector<const plan::Job*> jobs_of(const RunRequest& request) {
  std::vector<const plan::Job*> jobs = plan::sub_jobs_of(request.plan, request.job);
  jobs.insert(jobs.begin(), &request.job);
  return jobs;
}

}  // namespace flow::exec
