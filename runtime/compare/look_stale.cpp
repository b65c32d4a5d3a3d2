// Looks of values that are those of an earlier step.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/arrays.h"
#include "runtime/compare/look_search.h"

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

/// The slices that have an error worth mentioning.
std::vector<size_t> wrong_slices(const LookInput& input) {
  constexpr double kLeast = 1e-6;
  const auto sums = sums_along(input.errors.squares, input.shape, 0);
  std::vector<size_t> wrong;
  for (size_t i = 0; i < sums.size(); ++i)
    if (sums[i] > kLeast * input.errors.total) wrong.push_back(i);
  return wrong;
}

/// All slices are right but some, which have golden's values of an earlier one.
void find_repeated(const LookInput& input, size_t slice, Looks& found) {
  const std::vector<size_t> wrong = wrong_slices(input);
  if (wrong.empty() || wrong.front() == 0 || 2 * wrong.size() > static_cast<size_t>(input.shape[0]))
    return;
  const auto add = [&](const std::string& text, const auto& source_of) {
    const auto predict = [&](size_t i) {
      const size_t at = i / slice;
      const bool is_wrong = std::ranges::binary_search(wrong, at);
      return input.golden[(is_wrong ? source_of(at) : at) * slice + i % slice];
    };
    found.push_back({LookKind::kStale, "stale: " + text, input.share_of(predict)});
  };
  const size_t first = wrong.front(), last = wrong.back();
  if (wrong.size() > 1) {
    add(fmt::format("{} of {} steps have the values of the one before", wrong.size(),
                    input.shape[0]),
        [](size_t at) { return at - 1; });
    if (last - first + 1 == wrong.size())
      add(fmt::format("steps {} to {} have the values of step {}", step_at(input, first),
                      step_at(input, last), step_at(input, first - 1)),
          [&](size_t) { return first - 1; });
    return;
  }
  for (size_t by = 1; by <= std::min<size_t>(first, kLongestDelay); ++by)
    add(fmt::format("step {} has the values of step {}", step_at(input, first),
                    step_at(input, first - by)),
        [&](size_t at) { return at - by; });
}

/// A file of one step that is golden's of an earlier one.
void find_earlier(const LookInput& input, Looks& found) {
  const auto& earlier = input.context.earlier;
  for (size_t k = 0; k < std::min<size_t>(earlier.size(), kLongestDelay); ++k) try {
      const Array other = read_array(earlier[k].path);
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
  find_repeated(input, slice, found);
}

}  // namespace flow::compare
