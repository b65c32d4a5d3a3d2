// Evenly spaced numbers, the same on every device.
#pragma once

#include <cstdint>

#include "runtime/base/host_device.h"

namespace flow {

struct EvenlySpaced {
  double first, last, distance;

  EvenlySpaced(double from, double to, int64_t count)
      : first(from),
        last(to),
        distance(count > 1 ? (to - from) / static_cast<double>(count - 1) : 0) {}

  /// Number i of `count`, counted from the nearer end: both ends are exact.
  FLOW_HOST_DEVICE double at(int64_t i, int64_t count) const {
    const int64_t left = count - 1 - i;
    return i <= left ? first + static_cast<double>(i) * distance
                     : last - static_cast<double>(left) * distance;
  }
};

}  // namespace flow
