// Finds looks in which the error is in one place (an element, an index of an axis, the last rows),
// is a function of each value (offset, gain, sign, rounding), or comes from the values of an
// earlier step.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/arrays.h"
#include "runtime/compare/look_search.h"

namespace flow::compare {
namespace {

// The share that counts as the whole error. The other elements may have the rounding errors that
// every run has.
constexpr double kAllOfError = 0.999;

/// Returns true if the remaining error is no more than rounding. `squares` is the sum of the
/// squared errors outside the place.
bool is_rounding(const LookInput& input, double squares) {
  constexpr double kLargest = 1e-3;  // relative to golden, as a root mean square
  double golden = 0;
  for (const double value : input.golden)
    if (std::isfinite(value)) golden += input.errors.square(value);
  return squares <= kLargest * kLargest * golden;
}

/// Returns the bit that differs, if the two elements differ in exactly one bit.
std::optional<int> flipped_bit(const LookInput& input, size_t at) {
  const size_t bytes = size_of(input.golden_view.dtype);
  uint64_t golden = 0, out = 0;
  std::memcpy(&golden, input.golden_view.data + at * bytes, bytes);
  std::memcpy(&out, input.out_view.data + at * bytes, bytes);
  const uint64_t changed = golden ^ out;
  return std::has_single_bit(changed) ? std::optional(std::countr_zero(changed)) : std::nullopt;
}

void find_element(const LookInput& input, Looks& found) {
  const auto& squares = input.errors.squares;
  const auto at = static_cast<size_t>(std::ranges::max_element(squares) - squares.begin());
  const double share = squares[at] / input.errors.total;
  if (share < kAllOfError) return;
  double rest = 0;
  for (size_t i = 0; i < squares.size(); ++i) rest += i == at ? 0 : squares[i];
  if (!is_rounding(input, rest)) return;
  const std::string index = Shape(index_of(static_cast<int64_t>(at), input.shape)).str();
  const auto bit = flipped_bit(input, at);
  found.push_back({LookKind::kElement,
                   bit ? fmt::format("bit {} of one element, at {}", *bit, index)
                       : fmt::format("one element, at {}", index),
                   share});
}

/// Finds the index of an axis that has most of the error, if it is at most half of the array.
void find_channel(const LookInput& input, int axis, Looks& found) {
  if (input.shape[axis] < 2) return;
  const auto sums = sums_along(input.errors.squares, input.shape, axis);
  const auto most = std::ranges::max_element(sums);
  const double share = *most / input.errors.total;
  if (share < kAllOfError) return;
  const auto index = static_cast<int64_t>(most - sums.begin());
  double rest = 0;
  for (const double& sum : sums) rest += &sum == &*most ? 0 : sum;
  if (!is_rounding(input, rest)) return;
  if (input.context.steps_first && axis == 0) return;  // errors of steps have other looks
  found.push_back(
      {LookKind::kChannel, fmt::format("index {} of axis {} only", index, axis), share});
}

/// Finds the smallest number of last rows that contain the whole error.
void find_tail(const LookInput& input, Looks& found) {
  const int axis = input.rows_axis();
  if (axis >= input.shape.rank() || input.shape[axis] < 2) return;
  const auto sums = sums_along(input.errors.squares, input.shape, axis);
  double share = 0;
  size_t count = 0;
  while (count < sums.size() && share < kAllOfError)
    share += sums[sums.size() - ++count] / input.errors.total;
  if (2 * count > sums.size()) return;
  const auto rest = std::span(sums).first(sums.size() - count);
  if (!is_rounding(input, std::accumulate(rest.begin(), rest.end(), 0.0))) return;
  const std::string rows = count == 1 ? "row" : fmt::format("{} rows", count);
  found.push_back({LookKind::kTailRows, fmt::format("last {} of {}", rows, sums.size()), share});
}

std::string four_digits(double number) { return fmt::format("{:.4g}", number); }

/// Finds the constant that is nearest in squares, which is the mean error.
void find_offset(const LookInput& input, Looks& found) {
  double sum = 0;
  for (size_t i = 0; i < input.size(); ++i)
    if (input.errors.squares[i] > 0) sum += (input.out[i] - input.golden[i]) / input.errors.peak;
  const double offset = sum / static_cast<double>(input.errors.finite) * input.errors.peak;
  found.push_back({LookKind::kOffset, fmt::format("constant offset of {}", four_digits(offset)),
                   input.share_of([&](size_t i) { return input.golden[i] + offset; })});
}

/// Finds the factor that is nearest in squares: <out, golden> / <golden, golden>.
void find_gain(const LookInput& input, Looks& found) {
  double largest = 0;
  for (const double value : input.golden)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  if (largest == 0) return;
  double products = 0, squares = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    const double a = input.golden[i] / largest, b = input.out[i] / largest;
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    products += a * b;
    squares += a * a;
  }
  const double gain = products / squares;
  found.push_back({LookKind::kGain, fmt::format("gain of {}", four_digits(gain)),
                   input.share_of([&](size_t i) { return gain * input.golden[i]; })});
}

void find_sign(const LookInput& input, Looks& found) {
  found.push_back({LookKind::kSign, "opposite sign",
                   input.share_of([&](size_t i) { return -input.golden[i]; })});
}

/// Checks whether one side is the other, rounded to `Narrow`.
template <typename Narrow>
void find_rounding(const LookInput& input, const char* dtype, Looks& found) {
  const auto rounded = [](double value) {
    return static_cast<double>(flow::convert<Narrow>(value));
  };
  found.push_back({LookKind::kRounding, fmt::format("out is golden rounded to {}", dtype),
                   input.share_of([&](size_t i) { return rounded(input.golden[i]); })});
  found.push_back({LookKind::kRounding, fmt::format("golden is out rounded to {}", dtype),
                   input.share_of([&](size_t i) {
                     return input.out[i] - input.golden[i] + rounded(input.out[i]);
                   })});
}

constexpr int64_t kLongestDelay = 8;

/// Returns the step of a slice, or its index if the steps are unknown.
int64_t step_at(const LookInput& input, size_t slice) {
  return input.context.steps.empty() ? static_cast<int64_t>(slice) : input.context.steps[slice];
}

/// Finds a delay: each step has golden's values from a fixed number of steps before. The first
/// steps are left out.
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

/// Finds values that do not change any more: all steps have the values of the last good one.
void find_frozen(const LookInput& input, size_t slice, Looks& found) {
  const Tolerance& tolerance = input.context.tolerance;
  size_t first = 0;
  while (first < input.size() &&
         !(std::abs(input.out[first] - input.golden[first]) > tolerance.at(input.golden[first])))
    ++first;
  const size_t good = first / slice;  // the number of slices
  if (good == 0 || good * slice >= input.size()) return;
  found.push_back({LookKind::kStale,
                   fmt::format("stale: from step {} on, the values of step {}",
                               step_at(input, good), step_at(input, good - 1)),
                   input.share_of([&](size_t i) {
                     return input.golden[i < good * slice ? i : (good - 1) * slice + i % slice];
                   })});
}

/// Returns the slices with an error that is not negligible.
std::vector<size_t> wrong_slices(const LookInput& input) {
  constexpr double kLeast = 1e-6;
  const auto sums = sums_along(input.errors.squares, input.shape, 0);
  std::vector<size_t> wrong;
  for (size_t i = 0; i < sums.size(); ++i)
    if (sums[i] > kLeast * input.errors.total) wrong.push_back(i);
  return wrong;
}

/// Finds repeated values: some slices have golden's values of an earlier slice, and all others are
/// right.
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

/// Finds a file of one step that contains golden's values of an earlier step.
void find_earlier(const LookInput& input, Looks& found) {
  const auto& earlier = input.context.earlier;
  for (size_t k = 0; k < std::min<size_t>(earlier.size(), kLongestDelay); ++k) try {
      const Array other = read_array(earlier[k].path);
      if (other.dtype() != input.golden_view.dtype || other.shape() != input.shape) continue;
      const Doubles values = doubles_of(other.view());
      found.push_back({LookKind::kStale,
                       fmt::format("stale: the values of step {}", earlier[k].step),
                       input.share_of([&](size_t i) { return values[i]; })});
    } catch (const RunError&) {  // the verdict of that file reports it
    }
}

}  // namespace

void find_places(const LookInput& input, Looks& found) {
  find_element(input, found);
  find_tail(input, found);
  for (int axis = 0; axis < input.shape.rank(); ++axis) find_channel(input, axis, found);
}

void find_values(const LookInput& input, Looks& found) {
  find_sign(input, found);
  find_offset(input, found);
  find_gain(input, found);
  const DType dtype = input.golden_view.dtype;
  if (dtype == DType::kFloat64) find_rounding<float>(input, "float32", found);
  if (dtype != DType::kFloat64 && dtype != DType::kFloat32) return;
  find_rounding<BFloat16>(input, "bfloat16", found);
  find_rounding<Float16>(input, "float16", found);
}

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
