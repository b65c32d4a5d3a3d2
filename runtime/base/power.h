// Whole powers, and what running means have gathered, the same bits on every machine.
#pragma once

#include <cstdint>

#include "runtime/base/host_device.h"

namespace flow {

/// base^n, n >= 0, by squaring.
FLOW_HOST_DEVICE inline double power(double base, int64_t n) {
  double result = 1;
  for (; n > 0; n /= 2, base *= base)
    if (n % 2 == 1) result *= base;
  return result;
}

/// 1 - beta^t, what a mean of t gradients has of them; 1 where that is not corrected.
FLOW_HOST_DEVICE inline double gathered(double beta, bool corrected, int64_t step) {
  return corrected ? 1 - power(beta, step + 1) : 1;
}

}  // namespace flow
