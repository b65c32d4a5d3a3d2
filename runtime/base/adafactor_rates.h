// Numbers of a step that Adafactor computes from its decay and from norms.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/base/host_device.h"

namespace flow {

/// The share of new squares in their means. `decay`: at most 0.
FLOW_HOST_DEVICE inline double share_of_squares(double decay, int64_t step) {
  return std::pow(static_cast<double>(step + 1), decay);
}

/// What Adafactor limits updates by.
struct AdafactorLimits {
  double epsilon2, clip_threshold;

  /// By which u is multiplied, of root mean squares of the variable and of u.
  FLOW_HOST_DEVICE double rate(double size, double update, double learning_rate,
                               int64_t step) const {
    const double most = 1 / std::sqrt(static_cast<double>(step + 1));
    const double relative = learning_rate < most ? learning_rate : most;
    const double excess = update / clip_threshold;
    return relative * (size > epsilon2 ? size : epsilon2) / (excess > 1 ? excess : 1);
  }
};

}  // namespace flow
