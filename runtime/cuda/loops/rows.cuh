// Kernels with a team for each row: a warp for short rows, a block for long ones.
#pragma once

#include "runtime/base/ceil_div.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {

/// Is a block a row's team? Else a warp is.
inline bool is_long_row(int64_t n) { return n > 32 * kWarp; }

/// A grid of teams for rows of n elements. Its shared memory is what over_team asks for.
inline LaunchShape shape_for_rows(int64_t rows, int64_t n) {
  const int64_t teams = is_long_row(n) ? 1 : kThreads / kWarp;
  return {{blocks_for(ceil_div(rows, teams))}, {kThreads}, kThreads / kWarp * sizeof(double)};
}

/// Calls f(row, lane) for the rows of this thread's team of kTeam, of the teams of `blocks` blocks.
template <int kTeam, typename F>
__device__ void for_rows(int64_t rows, F f, unsigned blocks = gridDim.x) {
  constexpr int kTeams = kThreads / kTeam;
  const int lane = static_cast<int>(threadIdx.x) % kTeam;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kTeams + threadIdx.x / kTeam; row < rows;
       row += static_cast<int64_t>(blocks) * kTeams)
    f(row, lane);
}

}  // namespace flow::cuda
