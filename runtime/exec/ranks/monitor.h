// Heartbeats: a rank that died, hangs or failed ends the run of all the others. A limit for what
// waits for all ranks without heartbeats.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/exec/core/collectives.h"

namespace flow::exec {

/// What a rank is at, as its heartbeats say. Only computing has a time limit.
enum class RankActivity : uint8_t { kPreparing, kComputing, kWaiting, kDelivering, kSaving };

/// Sends heartbeats on a thread of its own and watches those of the others: rank 0 all of them, the
/// others rank 0. The thread alone polls for messages.
class Monitor {
 public:
  struct Options {
    std::chrono::milliseconds period{500};                       // between two heartbeats
    std::chrono::milliseconds timeout{std::chrono::minutes(2)};  // `--rank-timeout`
    std::vector<std::string> hosts = {};                         // by rank, for messages
    /// Called once, on the monitor's thread, when the run of this rank must end: with the message
    /// and its hint where this rank is the lowest that is left, else with empty ones. Does not
    /// return.
    std::function<void(const std::string& message, const std::string& hint)> end = {};
  };
  /// All ranks make one at about the same time: one that is not heard of for the timeout is lost.
  /// RunError where the system gives no thread.
  Monitor(Collectives& collectives, Options options);
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
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
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
