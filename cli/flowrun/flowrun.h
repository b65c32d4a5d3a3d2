// The parts of flowrun: its command line, devices, ranks and messages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/flowrun/progress_bar.h"
#include "cli/shared/job_source.h"
#include "compiler/compile.h"
#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/fingerprints.h"
#include "runtime/exec/core/module.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/exec/ranks/identity.h"
#include "runtime/exec/ranks/monitor.h"
#include "runtime/exec/ranks/mpi_module.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/model/plan.h"

namespace CLI {
class App;
}

namespace flow::cli {

constexpr int64_t kFingerprintEvery = 10, kFingerprintSize = 64;

struct RunOptions : exec::RunFlags {
  std::string job, file;
  std::optional<std::string> directory, root;
  std::vector<std::string> sets, inputs, watches, watch_diffs, watch_scopes;
  std::string device = "auto";
  bool quiet = false, dry_run = false, no_commands = false, no_fusion = false;
  bool distributed = false;
  std::optional<std::string> mpi;
  int64_t rank_timeout = 120;  // seconds
  std::optional<std::string> capture;
  std::string fingerprint;  // "true", or a number of steps; empty for no fingerprints
  std::optional<int64_t> fingerprint_size;  // MiB
};

/// Adds the options to `app`. `options` receives the values and must outlive the parsing.
void add_options(CLI::App& app, RunOptions& options);

/// Returns the flags that influence the run, for its record: "--set vars.lr=0.1".
std::vector<std::string> overrides_of(const RunOptions& options);

/// Returns the options that `--fingerprint` requests, or nothing without that flag.
std::optional<exec::FingerprintOptions> fingerprints_of(const RunOptions& options);

/// Returns the command that continues the run: "flowrun train lenet.yaml -o DIR --resume" with all
/// flags that influenced the run. For a predict job, which keeps no state, the command has --force
/// instead. `launcher` is the command that starts the ranks of a distributed run.
std::string next_command(const RunOptions& options, const plan::Job& job, const fs::path& directory,
                         const std::vector<std::string>& launcher = {});

/// Returns the request to the compiler. `gpu` is true if a GPU is usable.
CompileRequest compile_request(const RunOptions& options, bool gpu);

/// Returns NAME and SPEC of each `--input NAME=SPEC`. Throws RequestError if the `=` is missing.
std::vector<std::pair<std::string, std::string>> inputs_of(const RunOptions& options);

class RankSession {
 public:
  /// Joins the processes of the launcher. Throws RequestError if there is no launcher, or if the
  /// ranks differ in something that would change results; in that case only rank 0 reports the
  /// error. `what` names the setting that makes the run distributed, for the message.
  RankSession(const RunOptions& options, const std::string& what);
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  exec::Ranks& ranks() { return *ranks_; }
  /// Returns the ranks, or null if this process is the only one.
  exec::Ranks* others() { return ranks_->size() > 1 ? &*ranks_ : nullptr; }
  /// Returns the index of the GPU that this rank uses. Throws RequestError if there are too few
  /// GPUs, or if they are not the ones that the job's `ids` names.
  int gpu(const plan::Job& job) const { return exec::gpu_of(identities_, ranks_->rank(), job.ids); }
  /// Returns the default number of threads of a rank.
  int threads() const;
  /// Returns a text such as "4 ranks on 2 hosts".
  std::string text() const;
  /// Returns the command that starts these ranks again: "mpirun -np 4".
  std::vector<std::string> command() const;

  /// Runs `body` on rank 0, and ends the other ranks with its exit status.
  int lead(const std::function<int()>& body);
  /// Runs `body` on another rank, which prints nothing.
  int follow(const std::function<int()>& body);

 private:
  int leave(int status);

  const exec::LaunchedRank launched_;
  std::unique_ptr<exec::Collectives> collectives_;
  std::vector<exec::RankIdentity> identities_;
  std::unique_ptr<exec::Monitor> monitor_;
  std::unique_ptr<exec::Ranks> ranks_;
};

/// Returns "this is one of 4 separate runs; ..." on the first of several processes that a launcher
/// started, or an empty string otherwise.
std::string remark_on_launcher();

/// Returns the GPUs of this machine that the options allow. Throws RequestError if the options
/// require a GPU that is missing.
exec::Gpu find_gpu(const RunOptions& options);

/// The devices on which the ranks of this process compute.
struct RunDevices {
  std::vector<int> gpus;  // GPU index of each rank of this process; empty if the CPU computes
  bool cpu_too = false;   // true if the job places some entries on the CPU

  /// Opens the device of a rank. Throws RunError on failure.
  std::unique_ptr<exec::Backend> open(const exec::Gpu& gpu, size_t rank = 0) const;
  /// Returns the device name of each rank for messages: "GPU 2".
  std::vector<std::string> names() const;
};

/// Chooses the devices. Throws RequestError if the job or the options require devices that are not
/// available. `session` belongs to a distributed run, in which each process is one rank, or is
/// null.
RunDevices choose_devices(const LoadedPlan& loaded, const plan::Job& job, const RunOptions& options,
                          const exec::Gpu& gpu, const RankSession* session);

/// Returns the reason why the CPU computes although no flag requested it, or an empty string if a
/// flag did or a GPU computes.
std::string why_cpu(const RunOptions& options, const LoadedPlan& loaded, const plan::Job& job,
                    const exec::Gpu& gpu);

/// Prints "train on cpu (this machine has no NVIDIA driver), writing to runs/lenet-train-001".
/// `ranks` is "4 ranks on 2 hosts" or "4 GPUs", or empty if there is only one.
void print_start(const RunOptions& options, const exec::RunRequest& request,
                 const exec::Backend& backend, const std::string& why_cpu,
                 const std::string& ranks);

/// Prints the last line, which describes what the run did and what to do next. `launcher` is the
/// command that starts the ranks of a distributed run.
void print_end(const RunOptions& options, const plan::Job& job, const fs::path& directory,
               const exec::RunOutcome& outcome, const std::vector<std::string>& launcher);

void print_profile(const RunOptions& options, const plan::Plan& plan,
                   const exec::ProfileReport& profile);
void print_remark(const RunOptions& options, const std::string& text);
/// Prints the memory of the job and of the jobs that it calls.
void print_memory(const RunOptions& options, const std::vector<exec::JobMemory>& jobs);
ProgressBar::Style progress_style(const RunOptions& options);

/// Returns the output of `flowrun --version --json`, a JSON object on one line: version and build,
/// the CPU, the GPUs or the reason why none is usable, the MPI libraries for which flow was built,
/// and the locations of NVIDIA's libraries.
std::string version_report();

}  // namespace flow::cli
