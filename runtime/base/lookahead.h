// The cycles of Lookahead.
#pragma once

#include <cstdint>

#include "runtime/base/host_device.h"

namespace flow {

// Steps are counted from 0. REQUIRES: steps > 0.

FLOW_HOST_DEVICE inline bool begins_cycle(int64_t steps, int64_t step) { return step % steps == 0; }

FLOW_HOST_DEVICE inline bool ends_cycle(int64_t steps, int64_t step) {
  return (step + 1) % steps == 0;
}

}  // namespace flow
