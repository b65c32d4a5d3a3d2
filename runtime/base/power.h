// Whole powers, the same bits on every machine.
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

}  // namespace flow
