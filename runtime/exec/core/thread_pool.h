// Threads that work together: step counters that one thread raises and others wait for, and a pool
// of threads that outlast the calls of a job.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

namespace flow::exec {

/// What a waiting thread has learned about its peer. It spins while it waits for a quick peer, so
/// that the hand-over takes about a microsecond, and sleeps while it waits for a slow peer, so that
/// the peer has the core to itself. There is one object for each waiting thread and counter.
class SpinPolicy {
  friend class StepCounter;
  bool quick_ = true;
};

/// A counter of completed steps. One thread raises it and one other thread waits for it. Any thread
/// may close it when no more steps will come.
class alignas(64) StepCounter {
 public:
  explicit StepCounter(int64_t completed) : state_(static_cast<uint64_t>(completed) << 1) {}

  int64_t completed() const { return static_cast<int64_t>(state_.load() >> 1); }
  /// Sets the number of completed steps. Everything written before is visible to the waiting
  /// thread. Wakes a sleeping thread when enough steps are complete for it, or immediately if
  /// `wake`. REQUIRES: steps >= completed().
  void complete(int64_t steps, bool wake = true);
  /// Makes threads give up if they wait for more steps than are complete.
  void close();
  bool closed() const { return state_.load() & 1; }
  /// Returns true when `steps` are complete, or false if they never will be. If they are not
  /// complete yet, the thread sleeps until `more` further steps are complete or until the other
  /// thread wakes it immediately: each wake-up costs the other thread some 20 us. Allocates
  /// nothing.
  bool wait(int64_t steps, SpinPolicy& spin_policy, int64_t more = 0);

 private:
  std::atomic<uint64_t> state_;      // steps * 2, plus 1 if closed
  std::atomic<int64_t> awaited_{0};  // the steps that a sleeping thread waits for, or 0
};

/// Threads that outlast the calls of a job. If jobs call each other at every step, creating threads
/// each time would take longer than the work that they do.
class ThreadPool {
 public:
  /// Throws RunError if the system cannot create the threads.
  explicit ThreadPool(size_t threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  /// Runs the i-th body on the i-th thread and returns when all are done. Bodies must not throw.
  /// REQUIRES: there are no more bodies than threads; only one call runs at a time.
  void run(std::vector<std::function<void()>> bodies);

 private:
  struct Member {
    std::function<void()> body;
    StepCounter given{0}, done{0};  // the numbers of bodies given and done
    SpinPolicy for_done;
    std::thread thread;
  };
  static void work(Member& member);
  void dismiss();

  std::deque<Member> members_;
};

}  // namespace flow::exec
