// Kernels that process many tensors at once. A table of the tensors is a kernel parameter, and each
// chunk of a tensor is processed by one block.
#pragma once

#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {

inline constexpr int64_t kChunk = 16 * kThreads;  // the number of elements of a block

/// An entry has `elements`, and `end`, the first block that belongs to the next entry.
template <typename Entry>
struct Table {
  /// The number of entries that fit in one launch, whose parameters have 4096 bytes including those
  /// after the table.
  static constexpr int kMost = sizeof(Entry) <= 80 ? 48 : 3840 / sizeof(Entry);
  Entry entries[kMost];
};

/// The elements [first, end) of a tensor.
struct Piece {
  int index;
  int64_t first, end;
};

/// Returns the piece that this block processes.
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
