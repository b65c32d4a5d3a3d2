// The elements of arrays as doubles; percentiles of errors, and where along each axis most of the
// error is.
#include "runtime/compare/values.h"

#include <algorithm>
#include <cmath>

#include "runtime/io/elements.h"

namespace flow::compare {

Doubles doubles_of(const ArrayView& array) {
  return io::visit_elements(array, [](auto elements) {
    Doubles values(elements.size());
    std::ranges::transform(elements, values.begin(),
                           [](const auto& element) { return static_cast<double>(element); });
    return values;
  });
}

std::vector<int64_t> index_of(int64_t flat, const Shape& shape) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0; flat /= shape[axis])
    index[static_cast<size_t>(axis)] = flat % shape[axis];
  return index;
}

int64_t stride_of(const Shape& shape, int axis) { return shape.from(axis + 1).elements(); }

std::vector<double> sums_along(const Doubles& values, const Shape& shape, int axis) {
  const int64_t extent = shape[axis], stride = stride_of(shape, axis);
  std::vector<double> sums(static_cast<size_t>(extent));
  for (size_t i = 0; i < values.size(); ++i)
    sums[i / static_cast<size_t>(stride) % sums.size()] += values[i];
  return sums;
}

Errors::Errors(const Doubles& golden, const Doubles& out) : squares(golden.size()) {
  for (size_t i = 0; i < golden.size(); ++i) {
    const double error = std::abs(out[i] - golden[i]);
    finite += std::isfinite(error);
    squares[i] = std::isfinite(error) ? error : 0;
    peak = std::max(peak, squares[i]);
  }
  if (peak == 0) return;
  for (double& value : squares) {
    value = square(value);
    total += value;
  }
}

namespace {

constexpr int64_t kMostProfiled = int64_t{1} << 23;

/// The value at `fraction` of the sorted values, interpolated. Reorders them.
double percentile(Doubles& values, double fraction) {
  const double place = fraction * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), below, values.end());
  if (below + 1 == values.end()) return *below;
  const double above = *std::min_element(below + 1, values.end());
  return *below + (place - std::floor(place)) * (above - *below);
}

}  // namespace

std::optional<ErrorProfile> profile_errors(const ArrayView& golden, const ArrayView& out) {
  if (golden.shape.elements() > kMostProfiled) return {};
  const Doubles a = doubles_of(golden), b = doubles_of(out);
  const Errors errors(a, b);
  if (errors.total == 0) return {};
  ErrorProfile profile;
  for (int axis = 0; axis < golden.shape.rank(); ++axis) {
    if (golden.shape[axis] < 2) continue;
    const auto sums = sums_along(errors.squares, golden.shape, axis);
    const auto most = std::ranges::max_element(sums);
    profile.axes.push_back({axis, most - sums.begin(), *most / errors.total});
  }
  Doubles distances;
  distances.reserve(static_cast<size_t>(errors.finite));
  for (size_t i = 0; i < a.size(); ++i)
    if (const double distance = std::abs(b[i] - a[i]); std::isfinite(distance))
      distances.push_back(distance);
  profile.median = percentile(distances, 0.5);
  profile.percentile_90 = percentile(distances, 0.9);
  profile.percentile_99 = percentile(distances, 0.99);
  return profile;
}

}  // namespace flow::compare
