// The elements of arrays as doubles.
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

}  // namespace flow::compare
