// Integer division that rounds up.
#pragma once

#include <concepts>
#include <type_traits>

#include "runtime/base/host_device.h"

namespace flow {

/// How many parts of `part` cover n. REQUIRES: n >= 0, part > 0.
template <std::integral T>
FLOW_HOST_DEVICE constexpr T ceil_div(T n, std::type_identity_t<T> part) {
  return (n + part - 1) / part;
}

/// The first multiple of `unit` that is not below n. REQUIRES: as ceil_div.
template <std::integral T>
FLOW_HOST_DEVICE constexpr T round_up(T n, std::type_identity_t<T> unit) {
  return ceil_div(n, unit) * unit;
}

}  // namespace flow
