// Pairs of sums over the channels of [outer, channels, inner]. The shape determines how they are
// cut into chunks, which are added in float64 in fixed trees.
#pragma once

#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {

inline constexpr int kColumns = 32, kRows = 8;  // threads of a block of sum_columns

/// How the elements of channels are distributed over blocks and threads.
struct Channels {
  int64_t outer = 1, channels = 1, inner = 1;
  int64_t chunk = 1, chunks = 1;    // elements of a chunk; chunks of a channel
  bool by_columns = inner < kRows;  // true if neighboring threads have neighboring channels
  bool narrow = outer * channels * inner < kNarrow;
  Divider by_inner{inner}, by_channels{channels};

  FLOW_HOST_DEVICE int64_t count() const { return outer * inner; }
  /// Returns the offset of element i of channel c.
  __device__ int64_t at(int64_t c, int64_t i) const {
    if (inner == 1) return i * channels + c;
    const Division<int64_t> own = divide(i, by_inner);
    return (own.quotient * channels + c) * inner + own.remainder;
  }
  /// Returns the channel of the element at offset `at`.
  __device__ int64_t channel_of(int64_t at) const {
    return divide(divide(at, by_inner).quotient, by_channels).remainder;
  }

 private:
  __device__ Division<int64_t> divide(int64_t n, const Divider& by) const {
    if (!narrow) return by.divide(n);
    const Division<int32_t> found = by.divide(static_cast<int32_t>(n));
    return {found.quotient, found.remainder};
  }
};

/// The two terms that an element contributes to its channel's sums, or the two sums.
struct Pair {
  double a, b;
};

/// Returns the sums of the terms first, first + step, ... below end.
template <typename Terms>
__device__ Pair sum_terms(const Channels& channels, const Terms& terms, int64_t c, int64_t first,
                          int64_t end, int64_t step) {
  Pair sums{0, 0};
  for (int64_t i = first; i < end; i += step) {
    const Pair term = terms(channels, c, channels.at(c, i));
    sums.a += term.a;
    sums.b += term.b;
  }
  return sums;
}

__device__ inline int64_t end_of_chunk(const Channels& channels) {
  const int64_t end = (blockIdx.y + int64_t{1}) * channels.chunk;
  return end < channels.count() ? end : channels.count();
}

/// Sums terms with a block for each channel and chunk (blockIdx.y).
template <typename Terms>
__global__ void sum_runs(Channels channels, Terms terms, Pair* parts) {
  const int64_t first = blockIdx.y * channels.chunk, end = end_of_chunk(channels);
  for (int64_t c = blockIdx.x; c < channels.channels; c += gridDim.x) {
    const Pair own = sum_terms(channels, terms, c, first + threadIdx.x, end, blockDim.x);
    const double a = over_block(own.a, Sum{}), b = over_block(own.b, Sum{});
    if (threadIdx.x == 0) parts[c * channels.chunks + blockIdx.y] = {a, b};
  }
}

/// Sums terms with a block of kColumns x kRows threads for kColumns channels and one chunk.
template <typename Terms>
__global__ void sum_columns(Channels channels, Terms terms, Pair* parts) {
  Pair* own = shared<Pair>() + threadIdx.x;
  const int64_t first = blockIdx.y * channels.chunk, end = end_of_chunk(channels);
  for (int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns; column < channels.channels;
       column += static_cast<int64_t>(gridDim.x) * kColumns) {
    const int64_t c = column + threadIdx.x;
    const bool any = c < channels.channels;
    __syncthreads();  // waits until the sums of the previous columns have been read
    if (any)
      own[threadIdx.y * kColumns] = sum_terms(channels, terms, c, first + threadIdx.y, end, kRows);
    __syncthreads();
    if (threadIdx.y > 0 || !any) continue;
    Pair sums{0, 0};
    for (int row = 0; row < kRows; ++row) {
      sums.a += own[row * kColumns].a;
      sums.b += own[row * kColumns].b;
    }
    parts[c * channels.chunks + blockIdx.y] = sums;
  }
}

/// Sums the chunks of a channel with one warp.
__device__ inline Pair sum_chunks(const Channels& channels, const Pair* parts, int64_t c) {
  Pair sums{0, 0};
  for (int64_t chunk = threadIdx.x; chunk < channels.chunks; chunk += kWarp) {
    sums.a += parts[c * channels.chunks + chunk].a;
    sums.b += parts[c * channels.chunks + chunk].b;
  }
  return {over_warp(sums.a, Sum{}), over_warp(sums.b, Sum{})};
}

}  // namespace flow::cuda
