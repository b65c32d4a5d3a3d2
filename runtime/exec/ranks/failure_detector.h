// Which rank is lost, and who reports it: what a monitor decides, without its thread and its clock.
//
// Rank 0 watches all ranks, and the others watch rank 0. A rank that finds a failure proposes it to
// lower ranks, whose turn to report comes earlier. The first whose turn comes announces the failure
// to all; the others then end without a word, a little later: launchers kill what is left as soon
// as a first process ends. Where rank 0 fails on its own, the others wait until it says so at its
// end: it has a run to close.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/exec/ranks/monitor.h"

namespace flow::exec {

/// What a rank says of itself.
struct RankStatus {
  RankActivity activity = RankActivity::kPreparing;
  int64_t step = 0;
  bool leaves = false;
  bool fails = false;                       // of rank 0: it reports that, and ends the others
  std::chrono::nanoseconds median_step{0};  // of the last ones; not sent
};

/// Why all ranks end.
struct RankFailure {
  int rank = 0;
  std::string message, hint;
};

/// How this rank ends. Empty texts: without a word.
struct RankEnd {
  std::string message, hint;
};

/// The durations of the last steps.
class StepDurations {
 public:
  void add(std::chrono::nanoseconds duration) { last_[count_++ % last_.size()] = duration; }
  /// 0 where there are none.
  std::chrono::nanoseconds median() const;

 private:
  std::array<std::chrono::nanoseconds, 32> last_{};
  size_t count_ = 0;
};

class FailureDetector {
 public:
  FailureDetector(Collectives& collectives, const Monitor::Options& options);

  /// To those that watch this rank.
  void send_heartbeat(const RankStatus& own) const;
  /// This rank, which is not rank 0, failed on its own.
  void fail(const RankStatus& own, const std::string& message, const std::string& hint);
  /// Does the run end for a failure that is known here?
  bool ends() const { return ending_.has_value(); }
  /// Rank 0 has failed, and its run is closed.
  void end_others();
  /// Once in each period: heartbeats and messages. `elapsed` since the last turn counts as at most
  /// a period: a process that was stopped, or a machine that slept, accuses nobody of its own
  /// absence. Returns how this rank ends when it must.
  std::optional<RankEnd> turn(const RankStatus& own, std::chrono::nanoseconds elapsed);

 private:
  using Duration = std::chrono::nanoseconds;
  struct Peer {
    RankActivity activity = RankActivity::kPreparing;
    int64_t step = 0;
    bool left = false, failed = false;
    Duration silence{0}, unchanged{0};  // since its last heartbeat; at the same activity and step
  };
  enum class Part { kInLine, kReports, kFollows };
  struct Ending {
    RankFailure failure;
    Part part = Part::kInLine;
    int turns = 0;  // that are left
  };
  enum class Kind : uint8_t;  // of a message
  struct Head;

  void post(int to, std::span<const std::byte> message) const;
  void post_failure(int to, Kind kind) const;
  std::optional<RankMessage> poll() const;
  void receive();
  void receive_heartbeat(Peer& peer, const Head& head) const;
  void receive_failure(const Head& head, std::span<const std::byte> text);
  void look(const RankStatus& own);
  std::optional<RankFailure> failure_of(int rank, Duration limit) const;
  void find(RankFailure failure);
  void await_turn(RankFailure failure);
  std::optional<RankEnd> approach_end();
  void announce();
  std::string name(int rank) const;

  Collectives& collectives_;
  const Duration period_, timeout_;
  const std::vector<std::string> hosts_;
  const int rank_, first_watched_, end_watched_;
  std::vector<Peer> peers_;  // by rank
  std::optional<Ending> ending_;
};

}  // namespace flow::exec
