// Threads that outlast the calls of a job: where jobs call each other at every step, making threads
// anew would take longer than what they do.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/exec/core/step_counter.h"

namespace flow::exec {

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
