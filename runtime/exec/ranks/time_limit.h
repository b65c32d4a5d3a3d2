// A limit for what waits for all ranks without heartbeats: the start of MPI and its end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace flow::exec {

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
