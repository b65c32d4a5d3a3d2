// Which of two elements comes first among the largest or the smallest, on every device: a NaN
// before any number, as in NumPy.
#pragma once

#include <cstdint>

#include "runtime/base/host_device.h"

namespace flow {

/// Is `value` larger than `best`, or smaller?
template <bool kLargest, typename T>
FLOW_HOST_DEVICE bool precedes(T value, T best) {
  return (kLargest ? value > best : value < best) || (value != value && best == best);
}

template <typename T>
FLOW_HOST_DEVICE bool exceeds(T value, T best) {
  return precedes<true>(value, best);
}

/// An element and its place.
template <typename T>
struct Best {
  T value;
  int64_t place;
};

}  // namespace flow
