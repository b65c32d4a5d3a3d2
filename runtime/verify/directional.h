// A gradient against differences of the loss along one direction.
#pragma once

#include <cstddef>
#include <functional>

namespace flow::verify {

enum class Slope {
  kAgrees,
  kDiffers,
  kKink,    // the loss bends at 0: its slopes to both sides are not one
  kUnclear  // it bends beside 0, within the differences: they say nothing
};

struct SlopeCheck {
  Slope slope = Slope::kAgrees;
  double measured = 0;  // the slope that differences give
  double error = 0;     // how far the gradient is from it
};

/// `loss_at(h)`: the loss, in float64, h along the direction. `expected`: the slope at 0 that the
/// gradient gives. `norm`: of the gradient, the size that slopes in random directions have. `step`:
/// the largest h.
///
/// Central differences at h and h/2 (Richardson's extrapolation) err by O(h^4) where the loss is
/// smooth. Where they disagree with the gradient, two signs show bends: forward and backward
/// differences stay apart as h shrinks, or the two central differences are not much closer to each
/// other than to the gradient.
SlopeCheck check_slope(const std::function<double(double)>& loss_at, double expected, double norm,
                       double step);

/// Does the loss bend along a part of a direction along which the gradient seems wrong? Bends of
/// several elements can cancel each other in `Slope::kKink`'s test, and add up in the error. Those
/// of one element cannot: the half with the larger error is halved again, to one element if need
/// be. `check(first, last)`: the slope along elements first to last - 1 of the direction.
bool bends_in_part(size_t elements, const std::function<SlopeCheck(size_t, size_t)>& check);

}  // namespace flow::verify
