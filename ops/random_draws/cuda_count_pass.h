// Counting of a loop's passes on the device, because the host launches passes without waiting for
// them.
#pragma once

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// Counts a pass after it ends, so the next pass draws different random numbers. `call` is in
/// device memory.
void count_pass(CallBlock* call, const LaunchState& state);

}  // namespace flow::cuda
