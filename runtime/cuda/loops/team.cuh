// Reductions and scans over the threads of a warp or a block. They use fixed trees, so that results
// are bit-identical in every run, and every thread receives the result. Also kernels with a team of
// threads for each row: a warp for a short row, a block for a long one.
#pragma once

#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {

/// Returns true if results of `elements` elements each are better computed by a block each than by
/// a thread each.
inline bool suits_blocks(int64_t elements, int64_t results) {
  constexpr int64_t kManyResults = 1 << 14;
  return elements >= kWarp && results < kManyResults;
}

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// Ignores a NaN on the right.
struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

struct Smaller {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

/// Applies op to the values of the warp. REQUIRES: All lanes call it; op commutes.
template <typename T, typename Op>
__device__ T over_warp(T value, Op op) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    value = op(value, __shfl_xor_sync(0xFFFFFFFF, value, lanes));
  return value;
}

/// Applies op to the values of a one-dimensional block of whole warps. Uses a T of shared memory
/// for each warp. REQUIRES: All threads call it; op commutes.
template <typename T, typename Op>
__device__ T over_block(T value, Op op) {
  value = over_warp(value, op);
  const unsigned warps = blockDim.x / kWarp;
  if (warps == 1) return value;
  __syncthreads();  // waits until the previous shared values have been read
  if (threadIdx.x % kWarp == 0) shared<T>()[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = shared<T>()[0];
  for (unsigned warp = 1; warp < warps; ++warp) value = op(value, shared<T>()[warp]);
  return value;
}

/// Applies op to the values of a team of kTeam adjacent threads, which is a warp or the block.
template <int kTeam, typename T, typename Op>
__device__ T over_team(T value, Op op) {
  if constexpr (kTeam == kWarp)
    return over_warp(value, op);
  else
    return over_block(value, op);
}

/// The joined values of a column of threads.
template <typename Value>
struct ColumnScan {
  Value before, all;  // the values of the threads before this one; those of all threads
};

/// Joins the values of each column of threads in the block, starting with the first thread (Hillis
/// and Steele, 1986). `join` need not commute. Uses a Value of shared memory for each thread.
/// REQUIRES: All threads call it.
template <typename Value, typename Join>
__device__ ColumnScan<Value> scan_threads(Value value, Value identity, Join join) {
  Value* column = shared<Value>() + threadIdx.x;
  Value& own = column[threadIdx.y * blockDim.x];
  __syncthreads();  // waits until the values of the previous tile have been read
  own = value;
  for (unsigned apart = 1; apart < blockDim.y; apart *= 2) {
    __syncthreads();
    const Value before =
        threadIdx.y < apart ? identity : column[(threadIdx.y - apart) * blockDim.x];
    __syncthreads();
    own = join(before, own);
  }
  __syncthreads();
  return {threadIdx.y == 0 ? identity : column[(threadIdx.y - 1) * blockDim.x],
          column[(blockDim.y - 1) * blockDim.x]};
}

template <typename T>
__device__ ColumnScan<T> sum_of_threads(T value) {
  return scan_threads(value, T{0}, Sum{});
}

/// Returns true if the team of a row is a block, and false if it is a warp.
inline bool is_long_row(int64_t n) { return n > 32 * kWarp; }

/// Returns a grid of teams for rows of n elements, with the shared memory that over_team needs.
inline LaunchShape shape_for_rows(int64_t rows, int64_t n) {
  const int64_t teams = is_long_row(n) ? 1 : kThreads / kWarp;
  return {{blocks_for(ceil_div(rows, teams))}, {kThreads}, kThreads / kWarp * sizeof(double)};
}

/// Calls f(row, lane) for the rows of this thread's team of kTeam threads. The rows are distributed
/// over the teams of `blocks` blocks.
template <int kTeam, typename F>
__device__ void for_rows(int64_t rows, F f, unsigned blocks = gridDim.x) {
  constexpr int kTeams = kThreads / kTeam;
  const int lane = static_cast<int>(threadIdx.x) % kTeam;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kTeams + threadIdx.x / kTeam; row < rows;
       row += static_cast<int64_t>(blocks) * kTeams)
    f(row, lane);
}

}  // namespace flow::cuda
