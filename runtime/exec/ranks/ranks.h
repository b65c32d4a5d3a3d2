// The ranks of a distributed run, as one of them sees them. Rank 0 leads: it compiles, writes the
// run directory, and tells the others what to do next. Ranks may be threads of one process.
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

/// What rank 0 tells the others to do.
struct Order {
  enum class Kind : uint8_t {
    kPrepare,        // the job that a text describes, which follows
    kTakeVariables,  // their values follow
    kExecute,        // steps [first, end) of a job
    kCapture,        // give rank 0 their parts of variables
    kEnd             // the run, with an exit status
  };
  Kind kind = Kind::kEnd;
  int64_t job = 0;  // of kExecute: 0 is the run's, others are those that it calls, from 1
  int64_t first = 0, end = 0;
  int64_t exit_status = 0;
  std::optional<double> learning_rate = {};  // of kExecute: as in Execution
};

/// Thrown on a rank that does not lead when the run fails for a reason that rank 0 reports.
class EndedByLeader : public std::exception {
 public:
  const char* what() const noexcept override { return "the run ended on rank 0"; }
};

class Ranks {
 public:
  /// `hosts` and, for messages, `names`: by rank. Without names it is "rank 2 (node7)". What it is
  /// given outlives it; `monitor` may be null.
  Ranks(Collectives& collectives, Monitor* monitor, std::vector<std::string> hosts,
        std::vector<std::string> names = {});

  Collectives& collectives() const { return collectives_; }
  int rank() const { return collectives_.rank(); }
  int size() const { return collectives_.size(); }
  bool leads() const { return rank() == 0; }
  /// Is this the lowest rank of its host?
  bool is_first_of_host() const;
  /// "rank 2 (node7)", or its own name
  std::string name_of(int rank) const;

  /// For heartbeats: what this rank is at.
  void enter(RankActivity activity, int64_t step) const;
  /// So long took the last step: what heartbeats call hanging is measured by it.
  void step_took(std::chrono::nanoseconds duration) const;
  /// This rank fails while the others count on it: they end, too.
  void fail(const std::exception& error);
  bool failed() const { return failed_; }

  void send(const Order& order) const;
  Order receive() const;

  /// What each rank has to say where all of them have succeeded. `error`: why this one has not;
  /// null. Rank 0 throws its own error, or that of the lowest other rank; the others throw
  /// EndedByLeader.
  std::vector<std::string> join(const std::exception_ptr& error, const std::string& mine) const;

 private:
  Collectives& collectives_;
  Monitor* const monitor_;
  const std::vector<std::string> hosts_, names_;
  bool failed_ = false;
};

/// What the ranks of a run decide before each call.
struct NextCall {
  bool launches = true;
  bool saves = false;       // the state after it is captured
  Stop stop = Stop::kNone;  // why nothing is launched; kNone: the inputs have ended or failed
};

/// What all ranks do. A rank that has nothing to launch ends the steps of all. Rank 0 knows when
/// the state is captured, to which all ranks contribute.
NextCall agree_on_call(Collectives& ranks, const NextCall& mine);

/// Ranks that are threads of one process: what they exchange is copied from memory to memory.
class LocalRanks {
 public:
  explicit LocalRanks(int size);
  ~LocalRanks();
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  /// For the thread that is this rank.
  Collectives& rank(int rank);
  /// As Collectives::fail, for all ranks.
  void fail(const std::exception_ptr& error);

 private:
  struct World;
  class Rank;
  std::unique_ptr<World> world_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace flow::exec
