// Finds looks with values in other places: transposed, shifted along an axis, rows in another
// order.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/compare/look_search.h"

namespace flow::compare {
namespace {

using Axes = std::vector<int>;

/// Maps each element of the transposed golden to its place in golden.
class TransposedPlace {
 public:
  TransposedPlace(const Shape& golden, const Axes& axes) {
    for (const int axis : axes)
      axes_.push_back(
          {static_cast<size_t>(golden[axis]), static_cast<size_t>(stride_of(golden, axis))});
  }

  size_t operator()(size_t i) const {
    size_t place = 0;
    for (size_t axis = axes_.size(); axis-- > 0; i /= axes_[axis].extent)
      place += i % axes_[axis].extent * axes_[axis].stride;
    return place;
  }

 private:
  struct Axis {
    size_t extent, stride;
  };
  std::vector<Axis> axes_;
};

/// Returns true if the order of axes leaves the memory unchanged. Axes with one index do not count.
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
  const TransposedPlace place(from, axes);
  const double share = input.share_of([&](size_t i) { return input.golden[place(i)]; });
  std::vector<int64_t> extents;
  for (const int axis : axes) extents.push_back(from[axis]);
  found.push_back({LookKind::kTransposed,
                   fmt::format("golden with axes ({}){}", fmt::join(axes, ", "),
                               Shape(extents) == input.shape ? "" : ", in the memory of the other"),
                   share});
}

/// Tries all orders of up to four axes. For more axes, only exchanges two of them.
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

/// The longest shift that is tried. A shift at the edge of a convolution is one or two.
constexpr int64_t kLongestShift = 8;

/// A shift of all indices of an axis.
class Shift {
 public:
  Shift(const LookInput& input, int axis, int64_t by)
      : input_(input),
        axis_(axis),
        by_(by),
        extent_(input.shape[axis]),
        stride_(stride_of(input.shape, axis)) {}

  /// Finds a shift in which values that leave at one end enter at the other end.
  void find_around(Looks& found) const {
    if (extent_ == 2) return;  // two indices then count as exchanged
    add(", around its end",
        input_.share_of([&](size_t i) { return golden(i, (index(i) - by_ + extent_) % extent_); }),
        found);
  }

  /// Finds a shift that does not wrap around. The end that no value moves to contains golden's
  /// values, one constant, or other values that the look does not explain.
  void find_plain(Looks& found) const {
    const auto fill = constant_end();
    const auto is_inside = [&](size_t i) { return inside(i); };
    const auto moved = [&](size_t i) { return golden(i, index(i) - by_); };
    // A constant far away from the other values would hide that the rest does not fit.
    if (fill && input_.share_among(is_inside, moved) < kLeastShare) return;
    add(fill ? fmt::format(", filled with {:.4g}", *fill) : "", input_.share_of([&](size_t i) {
      return inside(i) ? moved(i) : fill.value_or(golden(i, index(i)));
    }),
        found);
  }

 private:
  int64_t index(size_t i) const { return static_cast<int64_t>(i) / stride_ % extent_; }
  bool inside(size_t i) const {
    const int64_t from = index(i) - by_;
    return from >= 0 && from < extent_;
  }
  /// Returns the golden value at another index of the axis.
  double golden(size_t i, int64_t from) const {
    return input_
        .golden[static_cast<size_t>(static_cast<int64_t>(i) + (from - index(i)) * stride_)];
  }

  /// Returns the one constant that fills the end, or nothing if the end has golden's values.
  std::optional<double> constant_end() const {
    std::optional<double> value;
    bool differs = false;
    for (size_t i = 0; i < input_.size(); ++i) {
      if (inside(i)) continue;
      if (!std::isfinite(input_.out[i]) || (value && input_.out[i] != *value)) return {};
      value = input_.out[i];
      differs |= input_.errors.squares[i] > 0;
    }
    return differs ? value : std::nullopt;
  }

  void add(const std::string& how, double share, Looks& found) const {
    found.push_back(
        {LookKind::kShifted, fmt::format("shifted by {} along axis {}{}", by_, axis_, how), share});
  }

  const LookInput& input_;
  const int axis_;
  const int64_t by_, extent_, stride_;
};

void find_shifted(const LookInput& input, Looks& found) {
  for (int axis = input.context.steps_first ? 1 : 0; axis < input.shape.rank(); ++axis)
    for (int64_t by = 1; by <= std::min(kLongestShift, input.shape[axis] / 2); ++by)
      for (const int64_t way : {by, -by}) {
        const Shift shift(input, axis, way);
        shift.find_plain(found);
        shift.find_around(found);
      }
}

/// Returns a fixed number in [-1, 1) for each element of a row, by the finalizer of SplitMix64
/// (Steele, Lea and Flood, 2014).
double weight_of(size_t element) {
  uint64_t bits = (element + 1) * 0x9E3779B97F4A7C15;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return static_cast<double>(static_cast<int64_t>(bits ^ (bits >> 31))) * 0x1p-63;
}

/// Returns the positions of the keys in ascending order. Equal keys keep their order.
std::vector<size_t> order_of(const Doubles& keys) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return keys[i]; });
  return order;
}

/// Returns the rows of one outer index, ordered by a projection. Rows that are equal except for
/// rounding get the same rank on both sides.
std::vector<size_t> ranked_rows(const Doubles& values, size_t first, size_t rows, size_t length) {
  Doubles keys(rows);
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < length; ++i)
      keys[row] += weight_of(i) * values[first + row * length + i];
  return order_of(keys);
}

/// Returns the golden values at the places where they would be in out.
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

/// Returns false if short entries do not all fit. Sorted numbers are close to each other even if
/// they are unrelated, so that a good share proves little for short entries.
template <typename Prediction>
bool may_be_order(const LookInput& input, size_t length, Prediction predict) {
  for (size_t i = 0; length < 3 && i < input.size(); ++i)
    if (std::abs(input.out[i] - predict(i)) > input.context.tolerance.at(predict(i))) return false;
  return true;
}

void find_permuted(const LookInput& input, Looks& found) {
  const int axis = input.rows_axis();
  if (axis >= input.shape.rank() || input.shape[axis] < 3) return;
  const auto rows = static_cast<size_t>(input.shape[axis]);
  const auto length = static_cast<size_t>(stride_of(input.shape, axis));
  const Doubles values = permuted_rows(input, rows, length);
  const auto predict = [&](size_t i) { return values[i]; };
  if (may_be_order(input, length, predict))
    found.push_back({LookKind::kPermuted, "rows in another order", input.share_of(predict)});
}

/// Returns the indices of an axis, ordered by projections of all their elements.
std::vector<size_t> ranked_indices(const Doubles& values, const Shape& shape, int axis) {
  const auto extent = static_cast<size_t>(shape[axis]);
  const auto stride = static_cast<size_t>(stride_of(shape, axis));
  Doubles keys(extent);
  for (size_t i = 0; i < values.size(); ++i)
    keys[i / stride % extent] += weight_of(i / (stride * extent) * stride + i % stride) * values[i];
  return order_of(keys);
}

/// Returns, for each index of an axis, the index of golden that it comes from.
std::vector<size_t> order_of_axis(const LookInput& input, int axis) {
  const auto golden = ranked_indices(input.golden, input.shape, axis);
  const auto out = ranked_indices(input.out, input.shape, axis);
  std::vector<size_t> from(golden.size());
  for (size_t rank = 0; rank < from.size(); ++rank) from[out[rank]] = golden[rank];
  return from;
}

/// Describes an order of the indices of an axis.
Look look_of_order(const std::vector<size_t>& from, int axis) {
  std::vector<size_t> moved;
  bool reversed = true;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != i) moved.push_back(i);
    reversed &= from[i] == from.size() - 1 - i;
  }
  if (reversed && from.size() > 2)
    return {LookKind::kReversed, fmt::format("axis {} reversed", axis)};
  if (moved.size() == 2)
    return {LookKind::kExchanged,
            fmt::format("indices {} and {} of axis {} exchanged", moved[0], moved[1], axis)};
  return {LookKind::kReordered, fmt::format("indices of axis {} in another order", axis)};
}

void find_reordered(const LookInput& input, int axis, const std::vector<size_t>& from,
                    Looks& found) {
  Look look = look_of_order(from, axis);
  if (look.kind == LookKind::kReordered && axis == input.rows_axis())
    return;  // rows have a search of their own
  const auto stride = static_cast<size_t>(stride_of(input.shape, axis));
  const auto predict = [&](size_t i) {
    const size_t at = i / stride % from.size();
    return input.golden[i + from[at] * stride - at * stride];
  };
  if (!may_be_order(input, input.size() / from.size(), predict)) return;
  look.share = input.share_of(predict);
  found.push_back(std::move(look));
}

/// Tries the indices of each axis in another order, and in reverse order, which needs no search.
void find_reordered(const LookInput& input, Looks& found) {
  constexpr int64_t kMostIndices = 4096;
  for (int axis = input.context.steps_first ? 1 : 0; axis < input.shape.rank(); ++axis) {
    if (input.shape[axis] < 2 || input.shape[axis] > kMostIndices) continue;
    std::vector<size_t> order(static_cast<size_t>(input.shape[axis]));
    std::iota(order.rbegin(), order.rend(), size_t{0});
    find_reordered(input, axis, order, found);
    if (std::vector<size_t> from = order_of_axis(input, axis);
        from != order && !std::ranges::is_sorted(from))
      find_reordered(input, axis, from, found);
  }
}

bool is_all_finite(const Doubles& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

}  // namespace

void find_moves(const LookInput& input, Looks& found) {
  find_transposed(input, found);
  if (input.golden_view.shape != input.shape) return;
  find_shifted(input, found);
  if (!is_all_finite(input.golden) || !is_all_finite(input.out)) return;
  find_permuted(input, found);
  find_reordered(input, found);
}

}  // namespace flow::compare
