// Joining and leaving a distributed run.
#include "cli/flowrun/rank_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "cli/shared/console.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/exec/core/module.h"
#include "runtime/exec/ranks/monitor.h"
#include "runtime/exec/ranks/mpi_module.h"

namespace flow::cli {
namespace {

const std::string kCheckpointIntact = "the last checkpoint is intact; continue with --resume";

/// A busy host needs seconds for MPI, however short the time is in which ranks miss each other.
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

/// The model of a GPU is compared when it is known that the job uses it.
std::string gpus_of(const RunOptions& options) {
  return options.device == "cpu" ? "" : exec::find_gpu().names();
}

/// Called on threads that watch the other ranks: the run of all is over.
[[noreturn]] void end_process(const std::string& message, const std::string& hint) {
  if (!message.empty()) print_error("flowrun", message, hint);
  ::_exit(kRunFailed);
}

[[noreturn]] void end_run(const std::string& message, const std::string& hint) {
  end_process(message, hint.empty() ? kCheckpointIntact : hint + "; " + kCheckpointIntact);
}

/// MPI waits for all ranks where it starts. Rank 1 reports only where rank 0 does not: launchers
/// end all ranks once one has.
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

/// All ranks leave together, so that nobody takes it for a failure. The exit status.
int RankSession::leave(int status) {
  try {
    if (ranks_->leads()) ranks_->send({.kind = exec::Order::Kind::kEnd, .exit_status = status});
    monitor_->leave();
    // The run is over: this rank ends even if MPI waits for one that was lost, or for ever, as
    // MPICH 4.0 may where it closes connections between hosts.
    std::fflush(nullptr);
    const exec::TimeLimit limit(kMostSecondsToEnd, [status] { ::_exit(status); });
    collectives_->finish();
    return status;
  } catch (const RunError& error) {
    if (status != kDone) return status;  // it is reported
    if (ranks_->leads()) print_error("flowrun", error.what(), error.hint());
    return kRunFailed;
  }
}

int RankSession::lead(const std::function<int()>& body) {
  // A launcher kills all ranks when one has ended with an error, which is to be told by then.
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
    ranks_->fail(error);  // rank 0 reports it; does not return
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
