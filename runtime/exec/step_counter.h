// How far a stage has come: a count of steps that one thread raises and others wait for.
#pragma once

#include <atomic>
#include <cstdint>

namespace flow::exec {

/// What a waiting thread has learnt about its peer: a quick one is awaited spinning, so that the
/// hand-over costs about a microsecond; a slow one asleep, so that it has the core to itself.
/// One for each waiting thread and counter.
class Patience {
  friend class StepCounter;
  bool quick_ = true;
};

/// Steps completed. Raised by one thread, awaited by any number; closed when no more will come.
class alignas(64) StepCounter {
 public:
  explicit StepCounter(int64_t completed) : state_(static_cast<uint64_t>(completed) << 1) {}

  int64_t completed() const { return static_cast<int64_t>(state_.load() >> 1); }
  /// What was written before is seen by whoever waited. REQUIRES: steps >= completed().
  void complete(int64_t steps);
  /// Waiters for more steps than are complete give up.
  void close();
  /// Returns true when `steps` are complete, false when that will not happen. Allocates nothing.
  bool wait(int64_t steps, Patience& patience) const;

 private:
  std::atomic<uint64_t> state_;  // steps * 2, + 1 when closed
};

}  // namespace flow::exec
