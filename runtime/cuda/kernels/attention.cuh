// What the attention kernels share: extents, the mask, and products of square tiles. A block is
// 16 x 16 threads, each with every 16th row and column of a tile, so that neighbouring threads read
// neighbouring elements. S is what tensors store, T what is computed: float for 16-bit tensors.
#pragma once

#include "runtime/base/ceil_div.h"
#include "runtime/base/convert.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {

struct Attention {
  int64_t batches, queries, keys, depth, value_depth;
  double scale;
  bool causal;
  const bool* mask;              // or null
  Loops<1> mask_batch;           // from a batch to where its mask starts
  int64_t mask_query, mask_key;  // steps

  /// Where the mask of a batch starts, or null. (Found once, and not kept in what is a parameter of
  /// the kernel, which would be copied to the stack.)
  __device__ const bool* mask_of(int64_t batch) const {
    return mask ? mask + mask_batch.at(batch).of[0] : nullptr;
  }

  __device__ bool sees(const bool* of_batch, int64_t query, int64_t key) const {
    if (query >= queries || key >= keys || (causal && key > query)) return false;
    return !of_batch || of_batch[query * mask_query + key * mask_key];
  }
};

inline constexpr int kSide = 16;   // threads along a side of a tile
inline constexpr int kDepth = 16;  // of a product, loaded at a time

/// Rows and columns of a tile, and of those a thread's own along each.
template <typename T>
inline constexpr int kTile = sizeof(T) == 4 ? 64 : 32;
template <typename T>
inline constexpr int kOwn = kTile<T> / kSide;
template <typename T>
inline constexpr int kTileStride = kTile<T> + 1;  // in shared memory: no bank twice at once

/// A thread's elements of a tile.
template <typename T>
struct Part {
  T at[kOwn<T>][kOwn<T>] = {};
};

/// f(i, j) for each of them. Unrolled, so that they are registers.
template <typename T, typename F>
__device__ void for_own(F f) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int at = 0; at < kOwn<T> * kOwn<T>; ++at) f(at / kOwn<T>, at % kOwn<T>);
}

__device__ inline int lane_row() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ inline int lane_column() { return static_cast<int>(threadIdx.x) % kSide; }

/// A matrix in global memory; `rows` from `data` on are there.
template <typename S>
struct Rows {
  const S* data;
  int64_t rows, columns;
};

/// Where a block keeps a tile and what a product reads.
template <typename T>
struct Space {
  T *left, *right, *tile;
  static constexpr int kFactor = kTile<T> * (kDepth + 1);
  static constexpr size_t kBytes = (2 * kFactor + kTile<T> * kTileStride<T>)*sizeof(T);

  __device__ Space() : left(shared<T>()), right(left + kFactor), tile(right + kFactor) {}
};

/// Columns [first, first + kDepth) of a tile's rows, and 0 where there are none.
template <typename S>
__device__ void load_columns(const Rows<S>& m, int64_t first, Wide<S>* to) {
  using T = Wide<S>;
  for (int i = static_cast<int>(threadIdx.x); i < kTile<T> * kDepth; i += kThreads) {
    const int row = i / kDepth, column = i % kDepth;
    const bool there = row < m.rows && first + column < m.columns;
    to[row * (kDepth + 1) + column] =
        there ? convert<T>(m.data[row * m.columns + first + column]) : T{0};
  }
}

/// a b^T: every row of `a` times every row of `b`.
template <typename S>
__device__ Part<Wide<S>> products(const Rows<S>& a, const Rows<S>& b, const Space<Wide<S>>& space) {
  using T = Wide<S>;
  Part<T> sums;
  for (int64_t first = 0; first < a.columns; first += kDepth) {
    __syncthreads();  // whoever reads what was loaded before
    load_columns(a, first, space.left);
    load_columns(b, first, space.right);
    __syncthreads();
    for (int k = 0; k < kDepth; ++k)
      for_own<T>([&](int i, int j) {
        sums.at[i][j] = multiply_add(space.left[(lane_row() + i * kSide) * (kDepth + 1) + k],
                                     space.right[(lane_column() + j * kSide) * (kDepth + 1) + k],
                                     sums.at[i][j]);
      });
  }
  return sums;
}

/// sums += tile m, for columns [first, first + kTile) of m. The tile is in space.tile.
template <typename S>
__device__ void add_products(const Space<Wide<S>>& space, const Rows<S>& m, int64_t first,
                             Part<Wide<S>>& sums) {
  using T = Wide<S>;
  for (int64_t row = 0; row < m.rows && row < kTile<T>; row += kDepth) {
    __syncthreads();  // whoever reads what was loaded before, and writes the tile
    for (int i = static_cast<int>(threadIdx.x); i < kTile<T> * kDepth; i += kThreads) {
      const int64_t from = row + i / kTile<T>, column = first + i % kTile<T>;
      const bool there = from < m.rows && column < m.columns;
      space.left[i] = there ? convert<T>(m.data[from * m.columns + column]) : T{0};
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k)
      for_own<T>([&](int i, int j) {
        sums.at[i][j] =
            multiply_add(space.tile[(lane_row() + i * kSide) * kTileStride<T> + row + k],
                         space.left[k * kTile<T> + lane_column() + j * kSide], sums.at[i][j]);
      });
  }
}

/// Puts f(row, column, i, j) of the tile at its place, for this thread's elements.
template <typename T, typename F>
__device__ void put_tile(const Space<T>& space, F f) {
  for_own<T>([&](int i, int j) {
    const int row = lane_row() + i * kSide, column = lane_column() + j * kSide;
    space.tile[row * kTileStride<T> + column] = f(row, column, i, j);
  });
}

/// Stores a tile's elements from column `first` on, as far as `to` has them.
template <typename T, typename S>
__device__ void store_part(const Part<T>& part, int64_t rows, int64_t columns, int64_t first,
                           S* to) {
  for_own<T>([&](int i, int j) {
    const int64_t row = lane_row() + i * kSide, column = first + lane_column() + j * kSide;
    if (row < rows && column < columns) to[row * columns + column] = convert<S>(part.at[i][j]);
  });
}

/// The block's tile: which batch, from which row, for which columns of the result; the batch's
/// mask.
struct TilePlace {
  int64_t batch, row, column;
  const bool* mask;
};

/// Blocks are numbered batch by batch, in those row by row of tiles.
template <typename T>
__device__ TilePlace tile_place(const Attention& at, int64_t rows, int64_t columns) {
  const int64_t across = ceil_div(columns, kTile<T>);
  const int64_t down = ceil_div(rows, kTile<T>);
  const int64_t number = blockIdx.x, batch = number / across / down;
  return {batch, number / across % down * kTile<T>, number % across * kTile<T>, at.mask_of(batch)};
}

template <typename T>
LaunchShape tile_launch(const Attention& at, int64_t rows, int64_t columns) {
  const int64_t across = ceil_div(columns, kTile<T>);
  const int64_t down = ceil_div(rows, kTile<T>);
  return {{static_cast<unsigned>(at.batches * across * down)}, {kThreads}, Space<T>::kBytes};
}

}  // namespace flow::cuda
