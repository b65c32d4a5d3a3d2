// When the steps of a profiled call end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "runtime/exec/core/profile.h"

namespace flow::cpu {

/// Times as in Program::step_times, for each output slot. Made without slots, it takes none.
class StepClock {
 public:
  StepClock() = default;
  /// `adds`: a step may run several times a call, for which it takes the sum.
  StepClock(size_t slots, size_t steps, bool adds)
      : adds_(adds), times_(slots, std::vector<int64_t>(steps + 1)) {}

  void begin(size_t slot) {
    if (times_.empty()) return;
    std::ranges::fill(times_[slot], 0);
    times_[slot][0] = last_ = exec::Profile::now();
  }
  void stamp(size_t slot, size_t step, bool ran) {
    if (times_.empty()) return;
    std::vector<int64_t>& times = times_[slot];
    const int64_t now = ran ? exec::Profile::now() : adds_ ? last_ : times[step];
    times[step + 1] = adds_ ? times[step + 1] + now - last_ : now;
    last_ = now;
  }
  void end(size_t slot) {
    if (times_.empty() || !adds_) return;
    std::partial_sum(times_[slot].begin(), times_[slot].end(), times_[slot].begin());
  }
  std::span<const int64_t> times(size_t slot) const { return times_[slot]; }

 private:
  bool adds_ = false;
  std::vector<std::vector<int64_t>> times_;  // of sums: durations, until the call ends
  int64_t last_ = 0;                         // stamp
};

}  // namespace flow::cpu
