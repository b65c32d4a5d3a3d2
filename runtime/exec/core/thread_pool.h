// Threads that work together: counts of steps that one raises and others wait for, and threads that
// outlast the calls of a job.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

namespace flow::exec {

/// What a waiting thread has learnt about its peer: a quick one is awaited spinning, so that the
/// hand-over costs about a microsecond; a slow one asleep, so that it has the core to itself.
/// One for each waiting thread and counter.
class SpinPolicy {
  friend class StepCounter;
  bool quick_ = true;
};

/// Steps completed. Raised by one thread, awaited by one other; closed, by any, when no more will
/// come.
class alignas(64) StepCounter {
 public:
  explicit StepCounter(int64_t completed) : state_(static_cast<uint64_t>(completed) << 1) {}

  int64_t completed() const { return static_cast<int64_t>(state_.load() >> 1); }
  /// What was written before is seen by whoever waited. Wakes a sleeper when there is enough for
  /// it, or at once if `wake`. REQUIRES: steps >= completed().
  void complete(int64_t steps, bool wake = true);
  /// Waiters for more steps than are complete give up.
  void close();
  bool closed() const { return state_.load() & 1; }
  /// Returns true when `steps` are complete, false when that will not happen. Where they are not
  /// complete it sleeps until `more` beyond them are, or until someone wants to know at once: being
  /// woken costs the other thread some 20 us. Allocates nothing.
  bool wait(int64_t steps, SpinPolicy& spin_policy, int64_t more = 0);

 private:
  std::atomic<uint64_t> state_;      // steps * 2, + 1 when closed
  std::atomic<int64_t> awaited_{0};  // by a sleeper
};

/// Threads that outlast the calls of a job: where jobs call each other at every step, making
/// threads anew would take longer than what they do.
class ThreadPool {
 public:
  /// RunError where the system has no thread to spare.
  explicit ThreadPool(size_t threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  /// Runs the i-th body on the i-th thread, and returns when all are done. Bodies do not throw.
  /// REQUIRES: no more of them than threads; one call at a time.
  void run(std::vector<std::function<void()>> bodies);

 private:
  struct Member {
    std::function<void()> body;
    StepCounter given{0}, done{0};  // bodies
    SpinPolicy for_done;
    std::thread thread;
  };
  static void work(Member& member);
  void dismiss();

  std::deque<Member> members_;
};

}  // namespace flow::exec
