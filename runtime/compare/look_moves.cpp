// Looks of values in other places: transposed, shifted along an axis, rows in another order.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/compare/look_search.h"

namespace flow::compare {
namespace {

using Axes = std::vector<int>;

/// The flat index in golden of each element of it with its axes in the order `axes`.
std::vector<size_t> transposed_places(const Shape& golden, const Axes& axes) {
  std::vector<size_t> places = {0};
  for (const int axis : axes) {
    const auto stride = static_cast<size_t>(stride_of(golden, axis));
    std::vector<size_t> next;
    next.reserve(places.size() * static_cast<size_t>(golden[axis]));
    for (const size_t place : places)
      for (int64_t i = 0; i < golden[axis]; ++i)
        next.push_back(place + static_cast<size_t>(i) * stride);
    places = std::move(next);
  }
  return places;
}

/// Does the order leave memory as it is? Axes of one index do not count.
bool keeps_order(const Shape& shape, const Axes& axes) {
  int last = -1;
  for (const int axis : axes) {
    if (shape[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

void find_transposed(const LookInput& input, const Axes& axes, Looks& found) {
  const Shape& from = input.golden_view.shape;
  if (keeps_order(from, axes)) return;
  const std::vector<size_t> places = transposed_places(from, axes);
  const double share = input.share_of([&](size_t i) { return input.golden[places[i]]; });
  std::vector<int64_t> extents;
  for (const int axis : axes) extents.push_back(from[axis]);
  found.push_back({LookKind::kTransposed,
                   fmt::format("golden with axes ({}){}", fmt::join(axes, ", "),
                               Shape(extents) == input.shape ? "" : ", in the memory of the other"),
                   share});
}

/// All orders of up to four axes; of more, two axes that change places.
void find_transposed(const LookInput& input, Looks& found) {
  const int rank = input.golden_view.shape.rank();
  Axes axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (rank <= 4) {
    while (std::next_permutation(axes.begin(), axes.end())) find_transposed(input, axes, found);
    return;
  }
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t j = i + 1; j < axes.size(); ++j) {
      Axes swapped = axes;
      std::swap(swapped[i], swapped[j]);
      find_transposed(input, swapped, found);
    }
}

/// Up to this far; a shift at an edge of a convolution is one or two.
constexpr int64_t kLongestShift = 8;

/// `around`: what leaves at one end comes in at the other; else that end is not explained.
void find_shifted(const LookInput& input, int axis, int64_t by, bool around, Looks& found) {
  const int64_t extent = input.shape[axis], stride = stride_of(input.shape, axis);
  const double share = input.share_of([&](size_t i) {
    const int64_t at = static_cast<int64_t>(i) / stride % extent;
    const bool inside = at - by >= 0 && at - by < extent;
    const int64_t from = inside ? at - by : around ? (at - by + extent) % extent : at;
    return input.golden[static_cast<size_t>(static_cast<int64_t>(i) + (from - at) * stride)];
  });
  found.push_back(
      {LookKind::kShifted,
       fmt::format("shifted by {} along axis {}{}", by, axis, around ? ", around its end" : ""),
       share});
}

void find_shifted(const LookInput& input, Looks& found) {
  for (int axis = input.context.steps_first ? 1 : 0; axis < input.shape.rank(); ++axis)
    for (int64_t by = 1; by <= std::min(kLongestShift, input.shape[axis] / 2); ++by)
      for (const bool around : {false, true}) {
        find_shifted(input, axis, by, around, found);
        find_shifted(input, axis, -by, around, found);
      }
}

/// A fixed number in [-1, 1) for each element of a row, by the finaliser of SplitMix64 (Steele, Lea
/// and Flood, 2014).
double weight_of(size_t element) {
  uint64_t bits = (element + 1) * 0x9E3779B97F4A7C15;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return static_cast<double>(static_cast<int64_t>(bits ^ (bits >> 31))) * 0x1p-63;
}

/// Rows of one outer index in the order of a projection: rows that are equal but for rounding get
/// the same rank on both sides.
std::vector<size_t> ranked_rows(const Doubles& values, size_t first, size_t rows, size_t length) {
  Doubles keys(rows);
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < length; ++i)
      keys[row] += weight_of(i) * values[first + row * length + i];
  std::vector<size_t> order(rows);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t row) { return keys[row]; });
  return order;
}

/// Golden values at the places where they would be in out.
Doubles permuted_rows(const LookInput& input, size_t rows, size_t length) {
  Doubles values = input.golden;
  for (size_t first = 0; first < values.size(); first += rows * length) {
    const auto from = ranked_rows(input.golden, first, rows, length);
    const auto to = ranked_rows(input.out, first, rows, length);
    for (size_t rank = 0; rank < rows; ++rank)
      std::copy_n(input.golden.begin() + static_cast<std::ptrdiff_t>(first + from[rank] * length),
                  length, values.begin() + static_cast<std::ptrdiff_t>(first + to[rank] * length));
  }
  return values;
}

void find_permuted(const LookInput& input, Looks& found) {
  const int axis = input.rows_axis();
  if (axis >= input.shape.rank() || input.shape[axis] < 3) return;
  const auto is_finite = [](double value) { return std::isfinite(value); };
  if (!std::ranges::all_of(input.golden, is_finite) || !std::ranges::all_of(input.out, is_finite))
    return;
  const auto rows = static_cast<size_t>(input.shape[axis]);
  const auto length = static_cast<size_t>(stride_of(input.shape, axis));
  const Doubles values = permuted_rows(input, rows, length);
  // Numbers in sorted order lie close even where they have nothing to do with each other.
  for (size_t i = 0; length < 3 && i < values.size(); ++i)
    if (std::abs(input.out[i] - values[i]) > input.context.tolerance.at(values[i])) return;
  found.push_back({LookKind::kPermuted, "rows in another order",
                   input.share_of([&](size_t i) { return values[i]; })});
}

}  // namespace

void find_moves(const LookInput& input, Looks& found) {
  find_transposed(input, found);
  if (input.golden_view.shape != input.shape) return;
  find_shifted(input, found);
  find_permuted(input, found);
}

}  // namespace flow::compare
