// Looks of values that are those of an earlier step.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/look_search.h"
#include "runtime/io/npy.h"

namespace flow::compare {
namespace {

constexpr int64_t kLongestDelay = 8;

/// The step of a slice, or its index.
int64_t step_at(const LookInput& input, size_t slice) {
  return input.context.steps.empty() ? static_cast<int64_t>(slice) : input.context.steps[slice];
}

/// Each step has golden's values of some steps before; the first ones are left out.
void find_delayed(const LookInput& input, size_t slice, Looks& found) {
  const int64_t most = std::min(kLongestDelay, input.shape[0] / 2);
  for (int64_t by = 1; by <= most; ++by) {
    const size_t distance = static_cast<size_t>(by) * slice;
    found.push_back(
        {LookKind::kStale,
         by == 1 ? "stale: each step has the values of the one before"
                 : fmt::format("stale: each step has the values of {} before",
                               counted(static_cast<uint64_t>(by), "step")),
         input.share_of([&](size_t i) { return input.golden[i < distance ? i : i - distance]; })});
  }
}

/// All steps have the values of the last good one.
void find_frozen(const LookInput& input, size_t slice, Looks& found) {
  const Tolerance& tolerance = input.context.tolerance;
  size_t first = 0;
  while (first < input.size() &&
         !(std::abs(input.out[first] - input.golden[first]) > tolerance.at(input.golden[first])))
    ++first;
  const size_t good = first / slice;  // slices
  if (good == 0 || good * slice >= input.size()) return;
  found.push_back({LookKind::kStale,
                   fmt::format("stale: from step {} on, the values of step {}",
                               step_at(input, good), step_at(input, good - 1)),
                   input.share_of([&](size_t i) {
                     return input.golden[i < good * slice ? i : (good - 1) * slice + i % slice];
                   })});
}

/// A file of one step that is golden's of an earlier one.
void find_earlier(const LookInput& input, Looks& found) {
  const auto& earlier = input.context.earlier;
  for (size_t k = 0; k < std::min<size_t>(earlier.size(), kLongestDelay); ++k) try {
      const Array other = io::read_npy(earlier[k].path);
      if (other.dtype() != input.golden_view.dtype || other.shape() != input.shape) continue;
      const Doubles values = doubles_of(other.view());
      found.push_back({LookKind::kStale,
                       fmt::format("stale: the values of step {}", earlier[k].step),
                       input.share_of([&](size_t i) { return values[i]; })});
    } catch (const RunError&) {  // its own verdict says so
    }
}

}  // namespace

void find_stale(const LookInput& input, Looks& found) {
  find_earlier(input, found);
  if (!input.context.steps_first || input.shape[0] < 2) return;
  const auto slice = static_cast<size_t>(stride_of(input.shape, 0));
  if (slice == 0) return;
  find_delayed(input, slice, found);
  find_frozen(input, slice, found);
}

}  // namespace flow::compare
