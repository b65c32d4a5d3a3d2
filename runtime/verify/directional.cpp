// Differences of the loss along one direction.
#include "runtime/verify/directional.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flow::verify {
namespace {

/// Differences with one h.
struct Differences {
  Differences(const std::function<double(double)>& loss_at, double middle, double h) {
    const double up = loss_at(h), down = loss_at(-h);
    central = (up - down) / (2 * h);
    bend = std::abs((up - middle) - (middle - down)) / h;
    size = std::max(std::abs(up), std::abs(down));
  }
  double central = 0;
  double bend = 0;  // between forward and backward difference
  double size = 0;  // of the loss
};

/// Of a sum of many terms: each difference of losses may err by this share of the loss.
constexpr double kNoise = 256 * std::numeric_limits<double>::epsilon();

}  // namespace

SlopeCheck check_slope(const std::function<double(double)>& loss_at, double expected, double norm,
                       double step) {
  constexpr double kClose = 1e-6;  // of the norm: what a wrong gradient exceeds
  const double middle = loss_at(0);
  const Differences wide(loss_at, middle, step), narrow(loss_at, middle, step / 2);
  const double noise = kNoise * std::max(wide.size, std::abs(middle)) / (step / 2);
  const double apart = std::abs(wide.central - narrow.central);
  const double measured = (4 * narrow.central - wide.central) / 3;
  const double error = std::abs(measured - expected);
  if (error <= kClose * norm + noise) return {Slope::kAgrees, measured, error};
  if (!std::isfinite(measured)) return {Slope::kUnclear, measured, error};
  const bool bends = narrow.bend > 0.75 * wide.bend && narrow.bend > error / 2;
  const bool disagrees = apart > error / 10 + noise;
  return {bends ? Slope::kKink : disagrees ? Slope::kUnclear : Slope::kDiffers, measured, error};
}

bool bends_in_part(size_t elements, const std::function<SlopeCheck(size_t, size_t)>& check) {
  size_t first = 0, last = elements;
  while (last - first > 1) {
    const size_t middle = first + (last - first) / 2;
    const SlopeCheck lower = check(first, middle), upper = check(middle, last);
    const auto error_of = [](const SlopeCheck& part) {
      return part.slope == Slope::kDiffers || part.slope == Slope::kKink ? part.error : 0;
    };
    if (error_of(lower) == 0 && error_of(upper) == 0) return false;
    const bool in_lower = error_of(lower) >= error_of(upper);
    if ((in_lower ? lower : upper).slope == Slope::kKink) return true;
    (in_lower ? last : first) = middle;
  }
  return false;
}

}  // namespace flow::verify
