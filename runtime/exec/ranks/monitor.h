// Heartbeats: a rank that died, hangs or failed ends the run of all the others. A limit for what
// waits for all ranks without heartbeats.
//
// Rank 0 watches all ranks, and the others watch rank 0. A rank that finds a failure proposes it to
// lower ranks, whose turn to report comes earlier. The first whose turn comes announces the failure
// to all; the others then end without a word, a little later: launchers kill what is left as soon
// as a first process ends. Where rank 0 fails on its own, the others wait until it says so at its
// end: it has a run to close.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/exec/core/collectives.h"

namespace flow::exec {

/// What a rank is at, as its heartbeats say. Only computing has a time limit.
enum class RankActivity : uint8_t { kPreparing, kComputing, kWaiting, kDelivering, kSaving };

struct MonitorOptions {
  std::chrono::milliseconds period{500};                       // between two heartbeats
  std::chrono::milliseconds timeout{std::chrono::minutes(2)};  // `--rank-timeout`
  std::vector<std::string> hosts = {};                         // by rank, for messages
  /// Called once, on the monitor's thread, when the run of this rank must end: with the message
  /// and its hint where this rank is the lowest that is left, else with empty ones. Does not
  /// return.
  std::function<void(const std::string& message, const std::string& hint)> end = {};
};

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

/// Which rank is lost, and who reports it: what a monitor decides, without its thread and its
/// clock.
class FailureDetector {
 public:
  FailureDetector(Collectives& collectives, const MonitorOptions& options);

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

/// Sends heartbeats on a thread of its own and watches those of the others: rank 0 all of them, the
/// others rank 0. The thread alone polls for messages.
class Monitor {
 public:
  /// All ranks make one at about the same time: one that is not heard of for the timeout is lost.
  /// RunError where the system gives no thread.
  Monitor(Collectives& collectives, MonitorOptions options);
  /// Stops watching; sends nothing more. Rank 0, where it has failed, ends the others first.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// What this rank is at from now on.
  void enter(RankActivity activity, int64_t step);
  /// A step of the run took so long: a rank may compute for 20 times the median of the last ones,
  /// where that is more than the timeout.
  void step_took(std::chrono::nanoseconds duration);
  /// This rank fails on its own, and all ranks end. Rank 0 reports that itself, as in any run: this
  /// returns, and the others wait for its monitor's end. On another rank the lowest one reports
  /// `message`, and this waits for `end`: it does not return either.
  void fail(const std::string& message, const std::string& hint = {});
  /// This rank is done: it watches no more, and the others do not miss it. The last call, before
  /// `Collectives::finish`.
  void leave();

 private:
  RankStatus own_status() const;
  void watch();
  void watch_or_end();
  void close();
  void stop();

  const Collectives& collectives_;
  const MonitorOptions options_;
  const int rank_;
  FailureDetector detector_;  // of the thread
  std::mutex mutex_;          // of all that follows
  std::condition_variable changed_;
  RankStatus status_;
  StepDurations durations_;
  std::optional<RankFailure> failure_;  // of this rank, that the thread has not seen
  bool stops_ = false, ended_ = false;
  std::thread thread_;
};

/// A limit for what waits for all ranks without heartbeats: the start of MPI and its end.
class TimeLimit {
 public:
  /// Calls `expired` once, on a thread of its own, unless this is destroyed within the limit. Time
  /// in which the process was stopped does not count. RunError where the system gives no thread.
  TimeLimit(std::chrono::seconds limit, std::function<void()> expired);

 private:
  void watch(const std::stop_token& stop, std::chrono::seconds limit) const;

  const std::function<void()> expired_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  std::jthread thread_;  // the last member: it ends first
};

}  // namespace flow::exec
