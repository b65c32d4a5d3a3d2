// Looks of errors that are in one place: an element, an index of an axis, the last rows.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>

#include "runtime/compare/look_search.h"

namespace flow::compare {
namespace {

// The rest of a place may carry the rounding that every run has.
constexpr double kAllOfError = 0.999;

/// Is it no more than rounding? `squares`: of the errors that are not in the place.
bool is_rounding(const LookInput& input, double squares) {
  constexpr double kLargest = 1e-3;  // of golden, as a root mean square
  double golden = 0;
  for (const double value : input.golden)
    if (std::isfinite(value)) golden += input.errors.square(value);
  return squares <= kLargest * kLargest * golden;
}

/// The bit that differs, if the two elements differ in one only.
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

/// The index of an axis that has most of the error, if it is at most half of the array.
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
  if (input.context.steps_first && axis == 0) return;  // a step has a name of its own
  found.push_back(
      {LookKind::kChannel, fmt::format("index {} of axis {} only", index, axis), share});
}

/// The least number of last rows with all of the error.
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

}  // namespace

void find_places(const LookInput& input, Looks& found) {
  find_element(input, found);
  find_tail(input, found);
  for (int axis = 0; axis < input.shape.rank(); ++axis) find_channel(input, axis, found);
}

}  // namespace flow::compare
