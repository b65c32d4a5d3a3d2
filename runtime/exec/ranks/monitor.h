// Heartbeats: a rank that died, hangs or failed ends the run of all other ranks. Also a time limit
// for waiting on all ranks before heartbeats begin and after they end.
//
// Rank 0 watches all ranks, and the others watch rank 0. A rank that finds a failure proposes it to
// lower ranks, whose turn to report comes earlier. The first rank whose turn comes announces the
// failure to all ranks. The others then end silently, a little later, because launchers kill the
// remaining processes as soon as the first process ends. If rank 0 itself fails, the others wait
// until it announces this at its end, because it must close the run first.
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

/// The current activity of a rank, which its heartbeats contain. Only computing has a time limit.
enum class RankActivity : uint8_t { kPreparing, kComputing, kWaiting, kDelivering, kSaving };

struct MonitorOptions {
  std::chrono::milliseconds period{500};                       // time between two heartbeats
  std::chrono::milliseconds timeout{std::chrono::minutes(2)};  // `--rank-timeout`
  std::vector<std::string> hosts = {};                         // indexed by rank; for messages
  /// Called once, on the monitor's thread, when the run of this rank must end. Receives the message
  /// and its hint if this rank is the lowest remaining one, otherwise empty texts. Must not return.
  std::function<void(const std::string& message, const std::string& hint)> end = {};
};

/// The status that a rank reports about itself.
struct RankStatus {
  RankActivity activity = RankActivity::kPreparing;
  int64_t step = 0;
  bool leaves = false;
  bool fails = false;  // only for rank 0: it reports the failure itself and ends the others
  std::chrono::nanoseconds median_step{0};  // the median of the last steps; not sent
};

/// The reason why all ranks end.
struct RankFailure {
  int rank = 0;
  std::string message, hint;
};

/// The end of this rank. It ends silently if the texts are empty.
struct RankEnd {
  std::string message, hint;
};

/// The durations of the last steps.
class StepDurations {
 public:
  void add(std::chrono::nanoseconds duration) { last_[count_++ % last_.size()] = duration; }
  /// Returns 0 if there are no steps.
  std::chrono::nanoseconds median() const;

 private:
  std::array<std::chrono::nanoseconds, 32> last_{};
  size_t count_ = 0;
};

/// Decides which rank is lost and which rank reports it. This is the logic of a monitor without its
/// thread and its clock.
class FailureDetector {
 public:
  FailureDetector(Collectives& collectives, const MonitorOptions& options);

  /// Sends a heartbeat to the ranks that watch this rank.
  void send_heartbeat(const RankStatus& own) const;
  /// Reports that this rank failed by itself. REQUIRES: this is not rank 0.
  void fail(const RankStatus& own, const std::string& message, const std::string& hint);
  /// Returns true if the run ends because of a failure that is known to this rank.
  bool ends() const { return ending_.has_value(); }
  /// Called when rank 0 has failed and its run is closed.
  void end_others();
  /// Sends a heartbeat and handles messages; called once per period. `elapsed`, the time since the
  /// last call, counts as at most one period, so that a process that was stopped, or a machine that
  /// slept, does not blame others for its absence. Returns how this rank ends when it must end.
  std::optional<RankEnd> turn(const RankStatus& own, std::chrono::nanoseconds elapsed);

 private:
  using Duration = std::chrono::nanoseconds;
  struct Peer {
    RankActivity activity = RankActivity::kPreparing;
    int64_t step = 0;
    bool left = false, failed = false;
    Duration silence{0}, unchanged{0};  // time since the last heartbeat; time without a change
  };
  enum class Part { kInLine, kReports, kFollows };
  struct Ending {
    RankFailure failure;
    Part part = Part::kInLine;
    int turns = 0;  // turns that remain
  };
  enum class Kind : uint8_t;  // the kind of a message
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
  std::vector<Peer> peers_;  // indexed by rank
  std::optional<Ending> ending_;
};

/// Sends heartbeats on a separate thread and watches those of other ranks: rank 0 watches all
/// ranks, the others watch rank 0. Only this thread polls for messages.
class Monitor {
 public:
  /// All ranks must make a monitor at about the same time: a rank without heartbeats for the
  /// timeout is lost. Throws RunError if the system cannot create a thread.
  Monitor(Collectives& collectives, MonitorOptions options);
  /// Stops watching and sends no more messages. If rank 0 has failed, it first ends the other
  /// ranks.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Sets the activity of this rank from now on.
  void enter(RankActivity activity, int64_t step);
  /// Reports how long a step of the run took. A rank may compute for 20 times the median of the
  /// last steps if that is more than the timeout.
  void step_took(std::chrono::nanoseconds duration);
  /// Reports that this rank fails by itself; all ranks then end. On rank 0, which reports its
  /// errors as in any run, this returns, and the other ranks wait for the end of its monitor. On
  /// any other rank, this waits until `end` is called and does not return; the lowest rank reports
  /// `message`.
  void fail(const std::string& message, const std::string& hint = {});
  /// Reports that this rank is done: it stops watching, and the others do not miss it. Must be the
  /// last call, before `Collectives::finish`.
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
  FailureDetector detector_;  // used only by the thread
  std::mutex mutex_;          // protects all members below
  std::condition_variable changed_;
  RankStatus status_;
  StepDurations durations_;
  std::optional<RankFailure> failure_;  // a failure that the thread has not handled yet
  bool stops_ = false, ended_ = false;
  std::thread thread_;
};

/// A time limit for operations that wait for all ranks without heartbeats: the start of MPI and its
/// end.
class TimeLimit {
 public:
  /// Calls `expired` once, on a separate thread, unless this object is destroyed within the limit.
  /// Time during which the process was stopped does not count. Throws RunError if the system cannot
  /// create a thread.
  TimeLimit(std::chrono::seconds limit, std::function<void()> expired);

 private:
  void watch(const std::stop_token& stop, std::chrono::seconds limit) const;

  const std::function<void()> expired_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  std::jthread thread_;  // the last member, because the thread must end first
};

}  // namespace flow::exec
