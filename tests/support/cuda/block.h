// Runs kernels on the CPU: a fiber a thread, blocks in turn, shared memory full of garbage at
// first.
#pragma once

#include "runtime/cuda/driver/driver.h"

namespace flow::test {

class LaunchCheck;

/// The order in which the threads of a block run, and go on after a barrier. A kernel that lacks a
/// barrier gives different results in the two.
enum class LaneOrder { kForward, kReversed };
inline constexpr LaneOrder kLaneOrders[] = {LaneOrder::kForward, LaneOrder::kReversed};

/// Runs all threads of `call`. RunError where some threads of a block wait at a barrier that others
/// never reach, or lanes in a shuffle that others of its mask never reach. Never hangs on those.
/// `check`: of this call, hears of what threads do; null: nothing is checked.
/// REQUIRES: the kernel was compiled with FLOW_CUDA_ON_CPU.
void run_on_cpu(const cuda::KernelCall& call, LaneOrder order, LaunchCheck* check = nullptr);

}  // namespace flow::test
