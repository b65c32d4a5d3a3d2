// Launches into the stream of a call: any kernel, a check of integers, or teams of threads for
// rows.
#pragma once

#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {

/// Enqueues kernel<<<shape>>>(values...) in the stream of a call.
template <typename... Parameters>
void launch(const LaunchState& state, const char* name, const LaunchShape& shape,
            void (*kernel)(Parameters...), std::type_identity_t<Parameters>... values) {
  launch(state.driver, state.stream, name, shape, kernel, values...);
}

template <typename Check = RangeCheck>
__global__ void check_integers(Integers integers, Check check, const CallBlock* call,
                               FaultBlock* fault) {
  check_range(integers, check, call, fault);
}

/// Launches, under that name, a check that records the first integer out of range.
inline void launch_check(const LaunchState& state, const char* name, const Integers& integers,
                         const RangeCheck& check) {
  const LaunchShape block{{1}, {kThreads}, kThreads / kWarp * sizeof(int64_t)};
  launch(state, name, block, check_integers<>, integers, check, state.call, state.fault);
}

/// Returns a grid of blocks with one team each, for rows of n elements and their parts
/// (blockIdx.y).
inline LaunchShape shape_for_teams(int64_t rows, int64_t n, int64_t parts = 1) {
  const unsigned threads = is_long_row(n) ? kThreads : kWarp;
  return {{blocks_for(rows), static_cast<unsigned>(parts)},
          {threads},
          threads / kWarp * sizeof(double)};
}

}  // namespace flow::cuda
