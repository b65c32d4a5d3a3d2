// Numbers of a step that Nadam and RAdam compute from their decay rates, the same bits on every
// machine.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/base/power.h"

namespace flow {

/// What Nadam multiplies the gradient and the mean of gradients by.
struct NadamFactors {
  double gradient, mean;
};

/// Momentum of step t, counted from 1: beta1 (1 - decay^t / 2). `decay`: 0.96^momentum_decay.
FLOW_HOST_DEVICE inline NadamFactors nadam_factors(double beta1, double decay, int64_t step) {
  const double now = beta1 * (1 - 0.5 * power(decay, step + 1));
  const double next = beta1 * (1 - 0.5 * power(decay, step + 2));
  // Of all momenta so far. Below 2^-64 a difference from 1 is 1, and so is 1 - fading / 2: what is
  // left are powers of beta1.
  double product = 1, fading = 1;
  for (int64_t i = 0; i <= step && product > 0x1p-64; ++i) {
    fading *= decay;
    if (fading < 0x1p-64) {
      product *= power(beta1, step + 1 - i);
      break;
    }
    product *= beta1 * (1 - 0.5 * fading);
  }
  return {(1 - now) / (1 - product), next / (1 - product * next)};
}

/// RAdam's rectification of the rate; 0 in the first steps, whose variance is unknown.
FLOW_HOST_DEVICE inline double rectification(double beta2, int64_t step) {
  const double limit = 2 / (1 - beta2) - 1, decayed = power(beta2, step + 1);
  const double length = limit - 2 * static_cast<double>(step + 1) * decayed / (1 - decayed);
  if (!(length > 5)) return 0;
  return std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
}

}  // namespace flow
