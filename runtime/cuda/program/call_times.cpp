// Events as times.
#include "runtime/cuda/program/call_times.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace flow::cuda {

void CallTimes::take(std::vector<exec::TimedStep> steps, size_t marks, size_t output_slots) {
  steps_ = std::move(steps);
  marks_.resize(output_slots);
  for (Marks& of_slot : marks_) {
    of_slot.ended.reserve(marks);
    for (size_t i = 0; i <= marks; ++i)
      of_slot.reached.emplace_back(driver_, driver_.create_timed_event());
  }
}

void CallTimes::begin(size_t output_slot) {
  if (steps_.empty()) return;
  marks_[output_slot].ended.clear();
  driver_.record(marks_[output_slot].reached[0].get(), stream_);
}

void CallTimes::mark(size_t output_slot, size_t step) {
  if (steps_.empty()) return;
  Marks& marks = marks_[output_slot];
  marks.ended.push_back(step);
  driver_.record(marks.reached[marks.ended.size()].get(), stream_);
}

/// What steps take on all shards is added up.
void CallTimes::read(size_t output_slot, int64_t begin, std::span<int64_t> times) const {
  const auto& [reached, ended] = marks_[output_slot];
  std::ranges::fill(times, 0);
  int64_t before = 0;
  for (size_t i = 0; i < ended.size(); ++i) {
    const double passed = driver_.milliseconds_between(reached[0].get(), reached[i + 1].get());
    const auto now = static_cast<int64_t>(1e6 * passed);
    times[1 + ended[i]] += now - std::exchange(before, now);
  }
  times[0] = begin;
  std::partial_sum(times.begin(), times.end(), times.begin());
}

}  // namespace flow::cuda
