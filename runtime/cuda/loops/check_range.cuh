// Integers that must be in range: labels, indices.
#pragma once

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {

/// Notes the first of `count` integers outside [0, limit), unless the call has a fault already. The
/// work of one block of whole warps, with shared memory for over_block.
__device__ inline void check_range(const Integers& integers, int64_t count, int64_t limit,
                                   int32_t check, FaultBlock* fault) {
  int64_t first = count;
  for (int64_t i = threadIdx.x; i < count && first == count; i += blockDim.x)
    if (integers[i] < 0 || integers[i] >= limit) first = i;
  first = over_block(first, Smaller{});
  if (threadIdx.x == 0 && first < count && fault->check == 0)
    *fault = {check, first, integers[first]};
}

}  // namespace flow::cuda
