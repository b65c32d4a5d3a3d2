// What device code and its launches have in common: where a thread stands and what its block
// shares. Alike under nvcc and where a test compiles kernels for the CPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/launch.h"

namespace flow::cuda {

/// The block's dynamic shared memory, of the bytes its launch asked for.
template <typename T>
__device__ T* shared() {
#ifdef FLOW_CUDA_ON_CPU
  return static_cast<T*>(test::shared_memory());
#else
  extern __shared__ __align__(16) unsigned char flow_shared_bytes[];
  return reinterpret_cast<T*>(flow_shared_bytes);
#endif
}

/// This thread's place among all of a grid of one dimension, and the number of them.
__device__ inline int64_t first_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t index_step() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// f(i) for i < kCount. Unrolled, so that what it indexes are registers.
template <int kCount, typename F>
__device__ void for_elements(F f) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int i = 0; i < kCount; ++i) f(i);
}

/// a b + sum. A device rounds that once, in one instruction, which -fmad=false keeps the compiler
/// from: for sums that have no bits to share with the CPU.
template <typename T>
__device__ T multiply_add(T a, T b, T sum) {
#ifdef FLOW_CUDA_ON_CPU
  return a * b + sum;
#else
  return fma(a, b, sum);
#endif
}

/// A block for every kThreads of n elements. Loops go on from there with index_step(), so that
/// tensors of any size will do.
inline LaunchShape shape_for(int64_t n) {
  return {{blocks_for(std::max<int64_t>(ceil_div(n, kThreads), 1))}, {kThreads}};
}

}  // namespace flow::cuda
