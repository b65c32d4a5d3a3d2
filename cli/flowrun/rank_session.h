// The part of a process in a distributed run: it joins the others, and leaves with all of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/flowrun/options.h"
#include "runtime/exec/ranks/identity.h"
#include "runtime/exec/ranks/monitor.h"
#include "runtime/exec/ranks/mpi_module.h"
#include "runtime/exec/ranks/ranks.h"

namespace flow::cli {

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

}  // namespace flow::cli
