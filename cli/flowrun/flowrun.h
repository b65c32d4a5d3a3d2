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

struct RunOptions {
  std::string job, file;
  std::optional<std::string> directory, save, root, tensorboard;
  std::vector<std::string> sets, inputs, watches, watch_diffs, watch_scopes, load, load_partial;
  std::optional<int64_t> steps;
  std::string device = "auto";
  int threads = 0;
  bool quiet = false, json = false, dry_run = false, force = false, resume = false;
  bool verify_data = false;
  bool ema = false;
  bool distributed = false;
  std::optional<std::string> mpi;
  int64_t rank_timeout = 120;  // seconds
  bool eager = false, profile = false, no_commands = false;
  std::optional<std::string> capture;
  std::string fingerprint;                  // "true", or a number of steps; empty: none
  std::optional<int64_t> fingerprint_size;  // MiB
  bool tune = false, no_fusion = false;
  std::optional<int64_t> permute_rows;
};

/// Fills `options`, which outlives the parsing.
void add_options(CLI::App& app, RunOptions& options);

/// What shapes the run, for its record: "--set vars.lr=0.1".
std::vector<std::string> overrides_of(const RunOptions& options);

/// What `--fingerprint` asks for; nothing without it.
std::optional<exec::FingerprintOptions> fingerprints_of(const RunOptions& options);

/// "flowrun train lenet.yaml -o DIR --resume", with all that shaped the run; of a predict job,
/// which keeps no state, with --force. `launcher`: what starts the ranks of a distributed run.
std::string next_command(const RunOptions& options, const plan::Job& job, const fs::path& directory,
                         const std::vector<std::string>& launcher = {});

/// `gpu`: is one usable?
CompileRequest compile_request(const RunOptions& options, bool gpu);

/// NAME and SPEC of each `--input NAME=SPEC`. RequestError where one has no `=`.
std::vector<std::pair<std::string, std::string>> inputs_of(const RunOptions& options);

class RankSession {
 public:
  /// Joins the processes of the launcher. RequestError if there is no launcher, or if ranks differ
  /// in what would change results; then only rank 0 has something to report.
  /// `what` makes the run distributed, for the message.
  RankSession(const RunOptions& options, const std::string& what);
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  exec::Ranks& ranks() { return *ranks_; }
  /// Null where this process is the only rank.
  exec::Ranks* others() { return ranks_->size() > 1 ? &*ranks_ : nullptr; }
  /// The GPU that this rank takes, by its index. RequestError where there are too few, or others
  /// than the job's `ids` names.
  int gpu(const plan::Job& job) const { return exec::gpu_of(identities_, ranks_->rank(), job.ids); }
  /// Threads that a rank takes by default.
  int threads() const;
  /// "4 ranks on 2 hosts"
  std::string text() const;
  /// What starts these ranks again: "mpirun -np 4".
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

/// "this is one of 4 separate runs; ..." where a launcher started several processes, on the first
/// of them; else "".
std::string remark_on_launcher();

/// The GPUs of this machine, as far as the options allow them. RequestError where they require one
/// that is not there.
exec::Gpu find_gpu(const RunOptions& options);

/// What the ranks of this process compute on.
struct RunDevices {
  std::vector<int> gpus;  // by rank of this process, by index; none: the CPU computes
  bool cpu_too = false;   // as entries of the job say

  /// Takes the device of a rank into use. RunError where that fails.
  std::unique_ptr<exec::Backend> open(const exec::Gpu& gpu, size_t rank = 0) const;
  /// By rank, for messages: "GPU 2".
  std::vector<std::string> names() const;
};

/// RequestError where the job or the options want other devices than there are. `session`: of a
/// distributed run, in which each process is one rank; else null.
RunDevices choose_devices(const LoadedPlan& loaded, const plan::Job& job, const RunOptions& options,
                          const exec::Gpu& gpu, const RankSession* session);

/// Why the CPU computes where no flag asked for it; "" where one did, or a GPU computes.
std::string why_cpu(const RunOptions& options, const LoadedPlan& loaded, const plan::Job& job,
                    const exec::Gpu& gpu);

/// "train on cpu (this machine has no NVIDIA driver), writing to runs/lenet-train-001". `ranks`:
/// "4 ranks on 2 hosts", "4 GPUs"; "" where there is one.
void print_start(const RunOptions& options, const exec::RunRequest& request,
                 const exec::Backend& backend, const std::string& why_cpu,
                 const std::string& ranks);

/// The last line: what the run did, and what to do next. `launcher`: what starts the ranks of a
/// distributed run.
void print_end(const RunOptions& options, const plan::Job& job, const fs::path& directory,
               const exec::RunOutcome& outcome, const std::vector<std::string>& launcher);

void print_profile(const RunOptions& options, const plan::Plan& plan,
                   const exec::ProfileReport& profile);
void print_remark(const RunOptions& options, const std::string& text);
/// Prints the memory of the job and of those that it calls.
void print_memory(const RunOptions& options, const std::vector<exec::JobMemory>& jobs);
ProgressBar::Style progress_style(const RunOptions& options);

/// What `flowrun --version --json` prints, an object on a line: version and build, the CPU, the
/// GPUs or why none is usable, the MPI libraries that flow was built for, and where NVIDIA's
/// libraries were found.
std::string version_report();

}  // namespace flow::cli
