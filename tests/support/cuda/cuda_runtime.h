// Stands in for NVIDIA's header of this name where kernels are compiled for the CPU: the words of
// the language, the coordinates of a thread, barriers and shuffles. block.cpp runs the threads.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#ifndef __restrict__
#define __restrict__ __restrict
#endif

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
};

// Of the thread that is running. Kernels run on the thread of the caller of run_on_cpu.
extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;

inline constexpr int warpSize = 32;

/// Vectors that one instruction loads, with the alignment that it asks for.
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};

namespace flow::test {

/// Where a thread waits. (clang 14 has no std::source_location.)
struct Place {
  const char* file;
  int line;
};

/// Waits until all threads of the block stand here. Did any of them bring true?
bool wait_for_block(Place place, bool value = false);
/// Waits until all lanes of `mask` stand here; then gives the bits that lane `from` brought, or
/// this lane's own where `from` is outside the warp.
uint64_t exchange(unsigned mask, uint64_t bits, int from, Place place);
/// Likewise; bit i is set where lane i brought true.
unsigned vote(unsigned mask, bool value, Place place);
/// Waits likewise. What lanes of `mask` wrote before, all of them see.
void wait_for_warp(unsigned mask, Place place);
/// The block's dynamic shared memory.
void* shared_memory();
/// This thread's lane in its warp.
int lane();

template <typename T>
T shuffle(unsigned mask, T value, int from, Place place) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, from, place);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace flow::test

inline void __syncthreads(flow::test::Place place = {__builtin_FILE(), __builtin_LINE()}) {
  flow::test::wait_for_block(place);
}

inline int __syncthreads_or(int value,
                            flow::test::Place place = {__builtin_FILE(), __builtin_LINE()}) {
  return flow::test::wait_for_block(place, value != 0);
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFF,
                       flow::test::Place place = {__builtin_FILE(), __builtin_LINE()}) {
  flow::test::wait_for_warp(mask, place);
}

inline unsigned __ballot_sync(unsigned mask, int value,
                              flow::test::Place place = {__builtin_FILE(), __builtin_LINE()}) {
  return flow::test::vote(mask, value != 0, place);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane,
              flow::test::Place place = {__builtin_FILE(), __builtin_LINE()}) {
  return flow::test::shuffle(mask, value, lane & (warpSize - 1), place);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance,
                   flow::test::Place place = {__builtin_FILE(), __builtin_LINE()}) {
  return flow::test::shuffle(mask, value, flow::test::lane() + static_cast<int>(distance), place);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes,
                  flow::test::Place place = {__builtin_FILE(), __builtin_LINE()}) {
  return flow::test::shuffle(mask, value, flow::test::lane() ^ lanes, place);
}

template <typename T>
T atomicAdd(T* at, T value) {
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicMax(T* at, T value) {
  T old = atomicAdd(at, T{0});  // orders as the exchange does
  while (old < value &&
         !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
