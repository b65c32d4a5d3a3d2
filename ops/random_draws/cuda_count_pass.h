// The host launches passes of a loop without waiting, so the device counts them.
#pragma once

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// Behind a pass: random numbers of the next one are different. `call`: on the device.
void count_pass(CallBlock* call, const LaunchState& state);

}  // namespace flow::cuda
