// Looks of errors that have no structure: white noise.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/compare/look_search.h"

namespace flow::compare {
namespace {

// Of fewer elements, chance explains as much. All bounds below are in standard deviations of what
// white noise of that many elements has.
constexpr size_t kLeastElements = 256;
constexpr double kBound = 5;

/// Rounding in another order makes errors up to about this share of golden, in deep networks, too.
double rounding_share(DType dtype) {
  constexpr double kSteps = 4096, kMost = 0.05;
  if (dtype == DType::kFloat64) return kSteps * std::numeric_limits<double>::epsilon();
  if (dtype == DType::kFloat32) return kSteps * double{std::numeric_limits<float>::epsilon()};
  return kMost;
}

double mean_of(const Doubles& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Pearson's correlation; 0 where one of the two is constant.
double correlation(const Doubles& a, const Doubles& b) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double products = 0, squares_a = 0, squares_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    products += (a[i] - mean_a) * (b[i] - mean_b);
    squares_a += (a[i] - mean_a) * (a[i] - mean_a);
    squares_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  const double size = std::sqrt(squares_a * squares_b);
  return size > 0 ? products / size : 0;
}

Doubles magnitudes_of(Doubles values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

/// The correlation of neighbors along an axis, of errors without a mean.
double neighbor_correlation(const Doubles& errors, double square_sum, const Shape& shape,
                            int axis) {
  const auto extent = static_cast<size_t>(shape[axis]);
  const auto stride = static_cast<size_t>(stride_of(shape, axis));
  double products = 0;
  for (size_t i = 0; i < errors.size(); ++i)
    if (i / stride % extent + 1 < extent) products += errors[i] * errors[i + stride];
  return products / square_sum;
}

/// Is the error as large at each index of an axis? `kurtosis`: of the errors.
bool is_even_along(const LookInput& input, int axis, double kurtosis) {
  constexpr double kLeastAtIndex = 16;
  const auto extent = static_cast<double>(input.shape[axis]);
  const double at_index = static_cast<double>(input.size()) / extent;
  if (at_index < kLeastAtIndex) return true;
  const double deviation = std::sqrt((kurtosis - 1) / at_index);
  return std::ranges::all_of(sums_along(input.errors.squares, input.shape, axis), [&](double sum) {
    return std::abs(sum * extent / input.errors.total - 1) < (kBound + 1) * deviation;
  });
}

/// Is there no mean, no relation to golden or to neighbors, and no place with more of it?
bool is_white(const LookInput& input, const Doubles& errors, double square_sum, double kurtosis) {
  const auto count = static_cast<double>(errors.size());
  const double bound = kBound / std::sqrt(count);
  if (std::abs(mean_of(errors)) > bound * std::sqrt(square_sum / count)) return false;
  if (std::abs(correlation(errors, input.golden)) > bound) return false;
  if (std::abs(correlation(magnitudes_of(errors), magnitudes_of(input.golden))) > bound)
    return false;
  for (int axis = 0; axis < input.shape.rank(); ++axis)
    if (std::abs(neighbor_correlation(errors, square_sum, input.shape, axis)) > bound ||
        !is_even_along(input, axis, kurtosis))
      return false;
  return true;
}

}  // namespace

std::optional<Look> find_noise(const LookInput& input) {
  const DType dtype = input.golden_view.dtype;
  if (!is_float(dtype) || input.size() < kLeastElements ||
      input.errors.finite != static_cast<int64_t>(input.size()))
    return {};
  Doubles errors(input.size());
  double squares = 0, fourth_powers = 0, golden_squares = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    errors[i] = (input.out[i] - input.golden[i]) / input.errors.peak;
    squares += errors[i] * errors[i];
    fourth_powers += errors[i] * errors[i] * errors[i] * errors[i];
    golden_squares += input.golden[i] * input.golden[i];
  }
  const auto count = static_cast<double>(errors.size());
  const double rms = std::sqrt(squares / count) * input.errors.peak;
  if (!(rms > rounding_share(dtype) * std::sqrt(golden_squares / count))) return {};
  // 1.8 of uniform noise, 3 of normal noise; more where few elements have most of the error.
  const double kurtosis = count * fourth_powers / (squares * squares);
  if (kurtosis < 1.5 || kurtosis > 4.5 || !is_white(input, errors, squares, kurtosis)) return {};
  return Look{LookKind::kNoise, fmt::format("noise of {:.2g} rms", rms), 1};
}

}  // namespace flow::compare
