// Chooses the devices of a run, and implements how a process joins and leaves the ranks of a run.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "cli/flowrun/flowrun.h"
#include "cli/shared/console.h"
#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/exec/core/module.h"
#include "runtime/exec/multi_device/multi_device.h"
#include "runtime/exec/ranks/monitor.h"
#include "runtime/exec/ranks/mpi_module.h"
#include "runtime/plan/model/shards.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::cli {
namespace {

/// Returns the error for a missing GPU. `instead` describes how to run on the CPU.
RunError no_gpu(const std::string& what, const exec::Gpu& gpu, const std::string& instead) {
  return RunError(fmt::format("{}, but none is usable: {}", what, gpu.problem()),
                  fmt::format("{}; or run on the CPU: {}", gpu.remedy(), instead));
}

/// Names the first step that runs on a GPU or, if there is none, the job: "lenet.yaml:36:3: job
/// `train` runs on a GPU".
std::string what_is_for_gpu(const plan::Job& job) {
  for (const plan::Step& step : job.steps)
    if (step.device == plan::DeviceKind::kGpu && !step.op->between_devices)
      return fmt::format("{}: `{}` of job `{}` runs on a GPU", step.where, step.name, job.name);
  return fmt::format("{}: job `{}` runs on a GPU", job.where, job.name);
}

/// Returns true if the job runs only on the CPU. The placements of a job file can cause this even
/// with `--device gpu`.
bool runs_on_cpu(const plan::Plan& plan, const plan::Job& job) {
  return job.device == plan::DeviceKind::kCpu && !plan::needs_two_devices(plan, job);
}

void require_cpu_allowed(const LoadedPlan& loaded, const plan::Job& job,
                         const RunOptions& options) {
  if (options.device == "gpu" && !loaded.from_job_file)
    throw RequestError(
        fmt::format("job `{}` of {} is compiled for the CPU", job.name, options.file),
        "omit --device gpu; or remove the job's CPU placement and run flowc build --device gpu");
}

void require_gpu(const LoadedPlan& loaded, const plan::Job& job, const RunOptions& options,
                 const exec::Gpu& gpu) {
  if (options.device == "cpu")
    throw RequestError(fmt::format("job `{}` of {} is compiled for a GPU", job.name, options.file),
                       "rebuild the plan with flowc build --device cpu");
  if (!gpu.found())
    throw no_gpu(
        what_is_for_gpu(job), gpu,
        loaded.from_job_file ? "--device cpu" : "rebuild the plan with flowc build --device cpu");
}

/// Returns the GPUs that `ids` names, one for each rank of this process, or the first GPU if `ids`
/// is empty.
std::vector<int> gpus_of(const plan::Job& job) {
  std::vector<int> gpus;
  for (const plan::DeviceId& id : plan::devices_of(job.ids))
    gpus.push_back(static_cast<int>(id.device));
  return gpus.empty() ? std::vector{0} : gpus;
}

const std::string kCheckpointIntact = "the last checkpoint is intact; continue with --resume";

/// MPI needs several seconds to start on a busy host, even if the timeout for lost ranks is
/// shorter.
constexpr int64_t kLeastSecondsToStart = 30;
constexpr std::chrono::seconds kMostSecondsToEnd(20);

const char* variable(const char* name) { return std::getenv(name); }

exec::LaunchedRank require_launched(const std::string& what) {
  if (const auto launched = exec::launched_rank(variable)) return *launched;
  throw RequestError(fmt::format("{} requires a launcher, but none started this process", what),
                     "start it with `mpirun -np 4 flowrun ...` or `srun -n 4 flowrun ...`");
}

std::vector<std::string> hosts_of(const std::vector<exec::RankIdentity>& identities) {
  std::vector<std::string> hosts;
  for (const exec::RankIdentity& identity : identities) hosts.push_back(identity.host);
  return hosts;
}

/// Returns the names of the GPUs. The ranks compare GPU models later, once the job is known to use
/// them.
std::string gpus_of(const RunOptions& options) {
  return options.device == "cpu" ? "" : exec::find_gpu().names();
}

/// Ends the process after the run has ended for all ranks. Threads that watch the other ranks call
/// it.
[[noreturn]] void end_process(const std::string& message, const std::string& hint) {
  if (!message.empty()) print_error("flowrun", message, hint);
  ::_exit(kRunFailed);
}

[[noreturn]] void end_run(const std::string& message, const std::string& hint) {
  end_process(message, hint.empty() ? kCheckpointIntact : hint + "; " + kCheckpointIntact);
}

/// Limits the time that MPI waits for all ranks at its start. Rank 1 reports the timeout only if
/// rank 0 does not, because launchers end all ranks after one rank ends.
exec::TimeLimit limit_start(int rank, int64_t rank_timeout) {
  constexpr std::chrono::seconds kTurn(3);
  const std::chrono::seconds limit(std::max(rank_timeout, kLeastSecondsToStart));
  return {limit + kTurn * std::min(rank, 2), [limit, rank] {
            if (rank >= 2) end_process("", "");
            end_process(fmt::format("MPI did not start on all ranks within {} s", limit.count()),
                        "check all hosts and the network, or raise --rank-timeout");
          }};
}

}  // namespace

exec::Gpu find_gpu(const RunOptions& options) {
  if (options.device == "cpu") return {"--device cpu", ""};
  exec::Gpu gpu = exec::find_gpu();
  if (options.device == "gpu" && !gpu.found())
    throw no_gpu("--device gpu requires a GPU", gpu, "--device cpu");
  return gpu;
}

std::unique_ptr<exec::Backend> RunDevices::open(const exec::Gpu& gpu, size_t rank) const {
  if (gpus.empty()) return cpu::make_backend();
  auto backend = gpu.open(gpus[rank]);
  return cpu_too ? exec::make_multi_device_backend(cpu::make_backend(), std::move(backend))
                 : std::move(backend);
}

std::vector<std::string> RunDevices::names() const {
  std::vector<std::string> names;
  for (const int gpu : gpus) names.push_back(fmt::format("GPU {}", gpu));
  return names;
}

RunDevices choose_devices(const LoadedPlan& loaded, const plan::Job& job, const RunOptions& options,
                          const exec::Gpu& gpu, const RankSession* session) {
  if (runs_on_cpu(loaded.plan, job)) {
    require_cpu_allowed(loaded, job, options);
    return {};
  }
  require_gpu(loaded, job, options, gpu);
  RunDevices devices{session ? std::vector{session->gpu(job)} : gpus_of(job),
                     plan::needs_two_devices(loaded.plan, job)};
  if (devices.cpu_too && devices.gpus.size() > 1)
    throw RequestError(
        fmt::format(
            "{}: job `{}` runs on {} and the CPU; one process supports one GPU with the CPU",
            job.where, job.name, counted(devices.gpus.size(), "GPU")),
        fmt::format("start one process a GPU: mpirun -np {} flowrun ... --distributed",
                    devices.gpus.size()));
  return devices;
}

std::string why_cpu(const RunOptions& options, const LoadedPlan& loaded, const plan::Job& job,
                    const exec::Gpu& gpu) {
  if (options.device == "cpu" || !runs_on_cpu(loaded.plan, job)) return "";
  if (!gpu.found()) return gpu.problem();
  return loaded.from_job_file ? "set by the job file" : "the plan is compiled for the CPU";
}

RankSession::RankSession(const RunOptions& options, const std::string& what)
    : launched_(require_launched(what)) {
  const exec::TimeLimit limit = limit_start(launched_.rank, options.rank_timeout);
  collectives_ = exec::open_mpi(launched_, options.mpi);
  identities_ = exec::gather_identities(
      *collectives_, exec::identify(cpu::instruction_set(), "", gpus_of(options)));
  exec::MonitorOptions watch;
  watch.timeout = std::chrono::seconds(options.rank_timeout);
  watch.hosts = hosts_of(identities_);
  watch.end = end_run;
  monitor_ = std::make_unique<exec::Monitor>(*collectives_, watch);
  ranks_ = std::make_unique<exec::Ranks>(*collectives_, monitor_.get(), hosts_of(identities_));
}

RankSession::~RankSession() = default;

int RankSession::threads() const {
  return exec::threads_here(identities_, ranks_->rank(), cpu::usable_cores());
}

std::string RankSession::text() const {
  const std::vector<std::string> hosts = hosts_of(identities_);
  const size_t count = std::set(hosts.begin(), hosts.end()).size();
  return fmt::format("{} on {}", counted(hosts.size(), "rank"), counted(count, "host"));
}

std::vector<std::string> RankSession::command() const {
  const std::string size = std::to_string(ranks_->size());
  if (launched_.launcher == "Slurm") return {"srun", "-n", size};
  return {"mpirun", "-np", size};
}

/// Ends all ranks together, so that no rank mistakes the end for a failure. Returns the exit
/// status.
int RankSession::leave(int status) {
  try {
    if (ranks_->leads()) ranks_->send({.kind = exec::Order::Kind::kEnd, .exit_status = status});
    monitor_->leave();
    // The run is over, so this rank ends even if MPI still waits for a lost rank. MPICH 4.0 may
    // wait forever when it closes connections between hosts.
    std::fflush(nullptr);
    const exec::TimeLimit limit(kMostSecondsToEnd, [status] { ::_exit(status); });
    collectives_->finish();
    return status;
  } catch (const RunError& error) {
    if (status != kDone) return status;  // the error has already been reported
    if (ranks_->leads()) print_error("flowrun", error.what(), error.hint());
    return kRunFailed;
  }
}

int RankSession::lead(const std::function<int()>& body) {
  // A launcher kills all ranks after one rank ends with an error. The error must be reported before
  // that.
  const int status = reported("flowrun", [&] {
    exec::require_alike(identities_);
    return body();
  });
  return ranks_->failed() ? status : leave(status);
}

int RankSession::follow(const std::function<int()>& body) {
  int status = kDone;
  try {
    status = body();
  } catch (const std::exception& error) {
    ranks_->fail(error);  // rank 0 reports the error; this call does not return
    ::_exit(kRunFailed);
  }
  return leave(status);
}

std::string remark_on_launcher() {
  try {
    const auto launched = exec::launched_rank(variable);
    if (!launched || launched->size == 1 || launched->rank > 0) return "";
    return fmt::format("this is one of {} separate runs; --distributed makes them one",
                       launched->size);
  } catch (const RequestError&) {
    return "";
  }
}

}  // namespace flow::cli
