// Chooses the best of all looks. If there is none, looks for white noise, or for the first step in
// which the arrays differ.
#include "runtime/compare/looks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runtime/compare/look_search.h"

namespace flow::compare {
namespace {

constexpr int64_t kMostSearched = int64_t{1} << 22;
// For few elements, one number or one order explains much of the error by chance; for even fewer,
// nearly all of it.
constexpr size_t kFewElements = 8, kTooFewElements = 4;
constexpr double kLeastShareOfFew = 0.99;
// Shares that differ by less than this count as equal, because rounding of the dtype blurs them.
constexpr double kEqualShares = 0.005;

constexpr std::array kNames = {"one_element",   "sign",          "rounding", "stale",
                               "tail_rows",     "one_channel",   "offset",   "gain",
                               "transposed",    "shifted",       "reversed", "exchanged",
                               "permuted_rows", "permuted_axis", "noise",    "from_step"};

/// Returns the first slice of a stack of steps that differs, or 0 for other arrays.
int64_t first_step_of(const LookInput& input) {
  if (!input.context.steps_first) return 0;
  const auto same = [&](size_t i) {
    return input.out[i] == input.golden[i] ||
           (std::isnan(input.out[i]) && std::isnan(input.golden[i]));
  };
  size_t first = 0;
  while (first < input.size() && same(first)) ++first;
  return static_cast<int64_t>(first) / stride_of(input.shape, 0);
}

/// Returns the slices of a stack, starting with `first`.
ArrayView slices_from(const ArrayView& array, int64_t first) {
  ArrayView rest = array;
  rest.shape[0] -= first;
  rest.data += static_cast<size_t>(first) * (array.bytes() / static_cast<size_t>(array.shape[0]));
  return rest;
}

std::string from_step_text(const LookInput& input, int64_t first) {
  const auto& steps = input.context.steps;
  return fmt::format("from step {} on", steps.empty() ? first : steps[static_cast<size_t>(first)]);
}

/// Finds looks from the step in which a fault begins. Earlier steps would only hide it.
void find_from_step(const LookInput& input, int64_t first, Looks& found) {
  LookContext context = input.context;
  if (!context.steps.empty())
    context.steps.erase(context.steps.begin(), context.steps.begin() + first);
  const ArrayView golden = slices_from(input.golden_view, first);
  const ArrayView out = slices_from(input.out_view, first);
  const LookInput rest(golden, out, context);
  Looks looks;
  find_values(rest, looks);
  find_moves(rest, looks);
  for (Look& look : looks) {
    look.text += ", " + from_step_text(input, first);
    found.push_back(std::move(look));
  }
}

// White noise: errors that have no structure.

// For fewer elements, chance explains as much as structure. All bounds below are in standard
// deviations of white noise with that number of elements.
constexpr size_t kLeastElements = 256;
constexpr double kBound = 5;

/// Returns the share of golden that errors can reach if rounding happens in another order. This
/// also covers deep networks.
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

/// Returns Pearson's correlation, or 0 if one of the two is constant.
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

/// Returns the correlation of neighbors along an axis. The errors have a mean of 0.
double neighbor_correlation(const Doubles& errors, double square_sum, const Shape& shape,
                            int axis) {
  const auto extent = static_cast<size_t>(shape[axis]);
  const auto stride = static_cast<size_t>(stride_of(shape, axis));
  double products = 0;
  for (size_t i = 0; i < errors.size(); ++i)
    if (i / stride % extent + 1 < extent) products += errors[i] * errors[i + stride];
  return products / square_sum;
}

/// Returns true if the error is equally large at each index of an axis. `kurtosis` is the kurtosis
/// of the errors.
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

/// Returns true if the errors have no mean, no relation to golden or to neighbors, and no place
/// where they are larger.
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

/// Finds white noise that is far larger than rounding.
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
  // The kurtosis is 1.8 for uniform noise and 3 for normal noise. It is larger if a few elements
  // have most of the error.
  const double kurtosis = count * fourth_powers / (squares * squares);
  if (kurtosis < 1.5 || kurtosis > 4.5 || !is_white(input, errors, squares, kurtosis)) return {};
  return Look{LookKind::kNoise, fmt::format("noise of {:.2g} rms", rms), 1};
}

/// Returns the look if no fault explains enough of the error: white noise, or the step in which the
/// arrays begin to differ.
std::optional<Look> find_last_resort(const LookInput& input, int64_t first_step) {
  if (const auto noise = find_noise(input)) return noise;
  if (first_step == 0) return {};
  const auto begin = static_cast<size_t>(first_step * stride_of(input.shape, 0));
  const size_t end = begin + static_cast<size_t>(stride_of(input.shape, 0));
  for (size_t i = begin; i < end; ++i)
    if (std::abs(input.out[i] - input.golden[i]) > input.context.tolerance.at(input.golden[i]))
      return Look{LookKind::kFromStep, "equal before, wrong " + from_step_text(input, first_step),
                  1};
  return {};  // the error grows from within the tolerance, as rounding errors do
}

}  // namespace

const char* name_of(LookKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::optional<LookKind> look_named(const std::string& name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return {};
  return static_cast<LookKind>(found - kNames.begin());
}

std::vector<size_t> sample_of(const Errors& errors) {
  constexpr size_t kSmall = size_t{1} << 16, kSample = 4096;
  std::vector<size_t> sample;
  if (errors.squares.size() <= kSmall || errors.total == 0) return sample;
  const double step = errors.total / kSample;
  double sum = 0, next = step / 2;
  for (size_t i = 0; i < errors.squares.size(); ++i)
    for (sum += errors.squares[i]; errors.squares[i] > 0 && sum >= next; next += step)
      sample.push_back(i);
  return sample;
}

std::optional<Look> best_look(const ArrayView& golden, const ArrayView& out,
                              const LookContext& context) {
  if (out.shape.elements() > kMostSearched || out.shape.elements() < 2) return {};
  const LookInput input(golden, out, context);
  if (input.errors.total == 0) return {};
  Looks looks;
  const bool same_shape = golden.shape == out.shape;
  const int64_t first_step = same_shape ? first_step_of(input) : 0;
  if (same_shape) {
    find_places(input, looks);
    find_stale(input, looks);
  }
  if (first_step > 0) {
    find_from_step(input, first_step, looks);
  } else {
    if (same_shape) find_values(input, looks);
    find_moves(input, looks);
  }
  if (input.size() < kTooFewElements)
    std::erase_if(looks, [](const Look& look) {
      return look.kind != LookKind::kSign && look.kind != LookKind::kRounding;
    });
  const double least = input.size() < kFewElements ? kLeastShareOfFew : kLeastShare;
  std::erase_if(looks, [&](const Look& look) { return look.share < least; });
  if (looks.empty()) return same_shape ? find_last_resort(input, first_step) : std::nullopt;
  const double best = std::ranges::max_element(looks, {}, &Look::share)->share;
  std::erase_if(looks, [&](const Look& look) { return look.share < best - kEqualShares; });
  return *std::ranges::min_element(
      looks, {}, [](const Look& look) { return std::pair(look.kind, -look.share); });
}

}  // namespace flow::compare
