// The time that the steps of a call take, from events between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/driver/handles.h"
#include "runtime/exec/core/backend.h"

namespace flow::cuda {

/// Without timed steps, marks are ignored.
class CallTimes {
 public:
  /// The driver outlives it.
  CallTimes(Driver& driver, Stream stream) : driver_(driver), stream_(stream) {}

  /// From now on times are taken. `marks`: of a call, at most.
  void take(std::vector<exec::TimedStep> steps, size_t marks, size_t output_slots);
  const std::vector<exec::TimedStep>& steps() const { return steps_; }

  void begin(size_t output_slot);
  /// What has been put since the mark before belongs to that timed step.
  void mark(size_t output_slot, size_t step);
  /// As Program::step_times, of a call that is complete and began at `begin`.
  void read(size_t output_slot, int64_t begin, std::span<int64_t> times) const;

 private:
  struct Marks {
    std::vector<OwnedEvent> reached;  // when a call begins, then what `ended` says
    std::vector<size_t> ended;        // which timed step, of the last call
  };

  Driver& driver_;
  const Stream stream_;
  std::vector<exec::TimedStep> steps_;
  std::vector<Marks> marks_;  // by output slot
};

}  // namespace flow::cuda
