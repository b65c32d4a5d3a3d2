// Kernels over many tensors at once: tables of them as kernel parameters, and a block for every
// chunk of one.
#pragma once

#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {

inline constexpr int64_t kChunk = 16 * kThreads;  // elements of a block

/// An entry has `elements`, and `end`: the first block that is another's.
template <typename Entry>
struct Table {
  /// As many as one launch takes: its parameters have 4096 bytes, with those behind the table.
  static constexpr int kMost = sizeof(Entry) <= 80 ? 48 : 3840 / sizeof(Entry);
  Entry entries[kMost];
};

/// Elements [first, end) of a tensor.
struct Piece {
  int index;
  int64_t first, end;
};

/// What this block does.
template <typename Entry>
__device__ Piece piece_of_block(const Table<Entry>& table) {
  const int64_t block = blockIdx.x;
  int index = 0;
  while (block >= table.entries[index].end) ++index;
  const int64_t first = (block - (index ? table.entries[index - 1].end : 0)) * kChunk;
  const int64_t rest = table.entries[index].elements - first;
  return {index, first, first + (rest < kChunk ? rest : kChunk)};
}

inline int64_t chunks_of(int64_t elements) { return ceil_div(elements, kChunk); }

}  // namespace flow::cuda
