// float32 against float64: how far apart, without a verdict.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/base/file_operations.h"
#include "runtime/base/text.h"
#include "runtime/compare/arrays.h"
#include "runtime/compare/values.h"
#include "runtime/io/npy.h"
#include "runtime/verify/bench.h"

namespace flow::verify {
namespace {

struct Distance {
  std::string tensor;
  double relative = 0;   // ||a - b|| / ||b||, over all steps; b in float64
  bool is_zero = false;  // in theory
};

// In float64, rounding is this much smaller than in float32, and a gradient is not.
constexpr double kShrinks = 1e-4;

/// A gradient is 0 in theory, such as that of a bias before batch normalization, where what is left
/// of it is rounding: it shrinks with the precision.
Distance distance_between(std::string name, const ArrayView& array, const ArrayView& exact) {
  const compare::Doubles a = compare::doubles_of(array), b = compare::doubles_of(exact);
  double error = 0, size = 0, rounded = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
    rounded += a[i] * a[i];
  }
  return {std::move(name), error == 0 ? 0 : std::sqrt(error / size),
          size < kShrinks * kShrinks * rounded};
}

/// A variable whose optimizer slots are 0 in theory follows rounding, too.
void mark_variables(std::vector<Distance>& distances) {
  for (Distance& variable : distances)
    for (const Distance& slot : distances)
      variable.is_zero |= slot.is_zero && slot.tensor.starts_with(variable.tensor + "/");
}

/// Of arrays of floats that both runs have, the largest first and those that are 0 in theory last;
/// NaN is larger than all numbers.
std::vector<Distance> distances_between(const fs::path& run, const fs::path& exact) {
  std::vector<Distance> distances;
  const compare::Side a = compare::list_side(run), b = compare::list_side(exact);
  for (const auto& [name, path] : a.arrays) {
    const auto other = b.arrays.find(name);
    if (other == b.arrays.end()) continue;
    const Array x = io::read_npy(path), y = io::read_npy(other->second);
    if (y.dtype() != DType::kFloat64 || x.shape() != y.shape()) continue;
    distances.push_back(distance_between(name, x.view(), y.view()));
  }
  mark_variables(distances);
  const auto rank = [](const Distance& d) {
    constexpr double kFirst = -std::numeric_limits<double>::infinity();
    return std::pair(d.is_zero, std::isnan(d.relative) ? kFirst : -d.relative);
  };
  std::ranges::stable_sort(distances, {}, rank);
  return distances;
}

}  // namespace

Result check_precision(Bench& bench) {
  const std::string precision = bench.job().precision;
  if (precision == "float64") throw NotApplicable("the job computes in float64");
  const plan::Plan plan = bench.compile_exact({});
  const TrialEnd exact = bench.run_whole(
      {.folder = bench.folder_for("precision"), .plan = plan, .steps = bench.request().steps});
  Result result{.verdict = Verdict::kMeasured};
  const auto distances = distances_between(bench.reference().directory, exact.directory);
  remove_tree(exact.directory);
  for (const Distance& distance : distances)
    result.notes.push_back(fmt::format("{:.1e}  {}{}", distance.relative, distance.tensor,
                                       distance.is_zero ? ", 0 in theory" : ""));
  result.detail = distances.empty() || distances.front().is_zero
                      ? fmt::format("{} against float64, no floats to compare", precision)
                      : fmt::format("{} against float64, at most {:.1e} apart", precision,
                                    distances.front().relative);
  return result;
}

}  // namespace flow::verify
