// Shared code of kernels and their launches: the position of a thread and the shared memory of its
// block. It works the same under nvcc and in tests that compile kernels for the CPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/launch.h"

namespace flow::cuda {

/// Returns the block's dynamic shared memory, whose size its launch specified.
template <typename T>
__device__ T* shared() {
#ifdef FLOW_CUDA_ON_CPU
  return static_cast<T*>(test::shared_memory());
#else
  extern __shared__ __align__(16) unsigned char flow_shared_bytes[];
  return reinterpret_cast<T*>(flow_shared_bytes);
#endif
}

/// The index of this thread among all threads of a one-dimensional grid, and the number of these
/// threads.
__device__ inline int64_t first_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t index_step() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// Calls f(i) for i < kCount. The loop is unrolled, so that the arrays that it indexes stay in
/// registers.
template <int kCount, typename F>
__device__ void for_elements(F f) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int i = 0; i < kCount; ++i) f(i);
}

/// Returns a * b + sum. A device rounds the result once, in a single instruction that -fmad=false
/// keeps the compiler from generating. It is for sums that need not be bit-identical to the CPU's.
template <typename T>
__device__ T multiply_add(T a, T b, T sum) {
#ifdef FLOW_CUDA_ON_CPU
  return a * b + sum;
#else
  return fma(a, b, sum);
#endif
}

/// Returns a grid with a block for every kThreads of n elements. Kernels loop with index_step(), so
/// that tensors can have any size.
inline LaunchShape shape_for(int64_t n) {
  return {{blocks_for(std::max<int64_t>(ceil_div(n, kThreads), 1))}, {kThreads}};
}

}  // namespace flow::cuda
