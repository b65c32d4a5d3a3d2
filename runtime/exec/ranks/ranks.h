// The ranks of a distributed run, from the point of view of one of them. Rank 0 leads: it compiles,
// writes the run directory, and sends orders to the other ranks. Ranks may be threads of one
// process.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exec/core/collectives.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/exec/ranks/monitor.h"

namespace flow::exec {

/// An order that rank 0 sends to the other ranks.
struct Order {
  enum class Kind : uint8_t {
    kPrepare,        // prepare the job described by the text that follows
    kTakeVariables,  // receive the values of variables, which follow
    kExecute,        // run steps [first, end) of a job
    kCapture,        // send the parts of variables to rank 0
    kEnd             // end the run with an exit status
  };
  Kind kind = Kind::kEnd;
  int64_t job = 0;  // used by kExecute: 0 is the main job, 1 and above are the jobs that it calls
  int64_t first = 0, end = 0;
  int64_t exit_status = 0;
  std::optional<double> learning_rate = {};  // used by kExecute: same as in Execution
};

/// Thrown on a rank that does not lead if the run fails for a reason that rank 0 reports.
class EndedByLeader : public std::exception {
 public:
  const char* what() const noexcept override { return "the run ended on rank 0"; }
};

class Ranks {
 public:
  /// `hosts` and `names` are indexed by rank. Messages use `names`; without names they use texts
  /// such as "rank 2 (node7)". The arguments must outlive this object; `monitor` may be null.
  Ranks(Collectives& collectives, Monitor* monitor, std::vector<std::string> hosts,
        std::vector<std::string> names = {});

  Collectives& collectives() const { return collectives_; }
  int rank() const { return collectives_.rank(); }
  int size() const { return collectives_.size(); }
  bool leads() const { return rank() == 0; }
  /// Returns true if this is the lowest rank of its host.
  bool is_first_of_host() const;
  /// Returns the rank's name, or a text such as "rank 2 (node7)" if it has none.
  std::string name_of(int rank) const;

  /// Sets the current activity of this rank, for heartbeats.
  void enter(RankActivity activity, int64_t step) const;
  /// Reports how long the last step took. Heartbeats use this to decide whether a rank hangs.
  void step_took(std::chrono::nanoseconds duration) const;
  /// Reports that this rank fails while other ranks depend on it, so that they end, too.
  void fail(const std::exception& error);
  bool failed() const { return failed_; }

  void send(const Order& order) const;
  Order receive() const;

  /// Waits for all ranks. Returns the texts `mine` of all ranks, indexed by rank, if all have
  /// succeeded. `error` is the reason why this rank has failed, or null. If any rank has failed,
  /// rank 0 throws its own error or that of the lowest other rank, and the other ranks throw
  /// EndedByLeader.
  std::vector<std::string> join(const std::exception_ptr& error, const std::string& mine) const;

 private:
  Collectives& collectives_;
  Monitor* const monitor_;
  const std::vector<std::string> hosts_, names_;
  bool failed_ = false;
};

/// The decision of the ranks before each call.
struct NextCall {
  bool launches = true;
  bool saves = false;       // the state after the call is captured
  Stop stop = Stop::kNone;  // why no call is launched; kNone if the inputs have ended or failed
};

/// Returns the common decision of all ranks. A rank that cannot launch a call ends the steps of all
/// ranks. Rank 0 decides when the state is captured, to which all ranks contribute.
NextCall agree_on_call(Collectives& ranks, const NextCall& mine);

/// Ranks that are threads of one process. They exchange data by copying it in memory.
class LocalRanks {
 public:
  explicit LocalRanks(int size);
  ~LocalRanks();
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  /// Returns the collectives for the thread of this rank.
  Collectives& rank(int rank);
  /// Same as Collectives::fail, for all ranks.
  void fail(const std::exception_ptr& error);

 private:
  struct World;
  class Rank;
  std::unique_ptr<World> world_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace flow::exec
