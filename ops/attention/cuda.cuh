// Code shared by the CUDA attention kernels: extents, the keys that a query sees, products of
// square tiles, and the arguments from a request. A block has 16 x 16 threads. Each thread owns
// every 16th row and column of a tile, so neighboring threads read neighboring elements. S is the
// type that tensors store and T the type of the computation, which is float for 16-bit tensors.
#pragma once

#include <algorithm>

#include "ops/attention/cuda_library.h"
#include "ops/attention/problem.h"
#include "ops/core/cuda_launch.cuh"
#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {

using ops::KeyRange;

/// An operand that broadcasts to the scores. It has no data if the call omits it.
struct ScoreOperand : ops::ScoreSteps {
  const std::byte* data = nullptr;
  Loops<1> batches = {};  // maps a batch to the offset of its elements

  ScoreOperand() = default;
  ScoreOperand(const Shape& shape, const Shape& query, int64_t keys)
      : ScoreSteps(shape, query, keys) {
    for (int axis = 0; axis < query.rank() - 2; ++axis)
      batches.add(query[axis], {along(shape, query, axis)});
  }

  /// Returns the elements of a batch, or null. Kernels call it once per batch and do not store the
  /// result in their parameters, because a modified parameter would be copied to the stack.
  template <typename T>
  __device__ const T* of(int64_t batch) const {
    return data ? reinterpret_cast<const T*>(data) + batches.at(batch).of[0] : nullptr;
  }
};

struct Attention : ops::AttentionExtents {
  ScoreOperand mask, bias;
  Integers lengths{nullptr, DType::kInt32};  // without data, all keys are valid
  int64_t batches_of_length = 1;             // number of batches that share a length

  explicit Attention(const ops::AttentionExtents& extents) : AttentionExtents(extents) {}

  /// The number of keys in a batch.
  __device__ int64_t length(int64_t batch) const {
    return lengths.data ? keys_of_length(lengths[batch / batches_of_length]) : keys;
  }

  /// The keys that at least one of the queries [first, end) of a batch may see. The first one is
  /// rounded down to a multiple of `tile`.
  __device__ KeyRange seen_keys(int64_t batch, int64_t first, int64_t end, int64_t tile) const {
    const KeyRange seen = AttentionExtents::seen_keys(length(batch), first, end);
    return {seen.first / tile * tile, seen.end};
  }
};

/// The data needed for the scores of a batch.
template <typename S>
struct BatchScores {
  using T = Wide<S>;
  int64_t keys;
  const bool* mask;  // may be null
  const S* bias;     // may be null

  __device__ BatchScores(const Attention& at, int64_t batch)
      : keys(at.length(batch)), mask(at.mask.of<bool>(batch)), bias(at.bias.of<S>(batch)) {}

  __device__ bool sees(const Attention& at, int64_t query, int64_t key) const {
    if (query >= at.queries || key >= keys) return false;
    const int64_t last = query + at.diagonal;
    if (at.causal && (key > last || last - key >= at.window)) return false;
    return !mask || mask[query * at.mask.query_step + key * at.mask.key_step];
  }

  /// The score of a key that the query sees. A bias of -inf hides the key, regardless of the
  /// product.
  __device__ T score(const Attention& at, int64_t query, int64_t key, T product) const {
    const T scaled = product * static_cast<T>(at.scale);
    if (!bias) return scaled;
    const T added = convert<T>(bias[query * at.bias.query_step + key * at.bias.key_step]);
    return added == -static_cast<T>(INFINITY) ? added : scaled + added;
  }
};

inline constexpr int kSide = 16;   // threads along each side of a tile
inline constexpr int kDepth = 16;  // columns of a product's operands that are loaded at a time

/// The number of rows and columns of a tile, and the number of rows and columns that each thread
/// owns.
template <typename T>
inline constexpr int kTile = sizeof(T) == 4 ? 64 : 32;
template <typename T>
inline constexpr int kOwn = kTile<T> / kSide;
template <typename T>
inline constexpr int kTileStride = kTile<T> + 1;  // row stride that avoids bank conflicts

/// The elements of a tile that a thread owns.
template <typename T>
struct Part {
  T at[kOwn<T>][kOwn<T>] = {};
};

/// Calls f(i, j) for each of these elements. The loop is unrolled, so that the elements stay in
/// registers.
template <typename T, typename F>
__device__ void for_own(F f) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int at = 0; at < kOwn<T> * kOwn<T>; ++at) f(at / kOwn<T>, at % kOwn<T>);
}

__device__ inline int lane_row() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ inline int lane_column() { return static_cast<int>(threadIdx.x) % kSide; }

/// A matrix in global memory, with `rows` valid rows starting at `data`.
template <typename S>
struct Rows {
  const S* data;
  int64_t rows, columns;
};

/// The shared memory of a block: a tile, and the operands of a product.
template <typename T>
struct Space {
  T *left, *right, *tile;
  static constexpr int kFactor = kTile<T> * (kDepth + 1);
  static constexpr size_t kBytes = (2 * kFactor + kTile<T> * kTileStride<T>)*sizeof(T);

  __device__ Space() : left(shared<T>()), right(left + kFactor), tile(right + kFactor) {}
};

/// Loads columns [first, first + kDepth) of a tile's rows, with 0 for elements outside the matrix.
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

/// Computes a b^T: the products of each row of `a` with each row of `b`.
template <typename S>
__device__ Part<Wide<S>> products(const Rows<S>& a, const Rows<S>& b, const Space<Wide<S>>& space) {
  using T = Wide<S>;
  Part<T> sums;
  for (int64_t first = 0; first < a.columns; first += kDepth) {
    __syncthreads();  // waits until no thread reads the previous columns
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

/// Computes sums += columns [row, row + kDepth) of the tile times the loaded rows.
template <bool kSkipsZeros, typename T>
__device__ void add_loaded(const Space<T>& space, int64_t row, Part<T>& sums) {
  for (int k = 0; k < kDepth; ++k)
    for_own<T>([&](int i, int j) {
      const T weight = space.tile[(lane_row() + i * kSide) * kTileStride<T> + row + k];
      if (kSkipsZeros && weight == 0) return;
      sums.at[i][j] =
          multiply_add(weight, space.left[k * kTile<T> + lane_column() + j * kSide], sums.at[i][j]);
    });
}

/// Computes sums += tile m for columns [first, first + kTile) of m; the tile is in space.tile. If
/// an element of the tile is 0, NaN and infinities of m add nothing.
template <typename S>
__device__ void add_products(const Space<Wide<S>>& space, const Rows<S>& m, int64_t first,
                             Part<Wide<S>>& sums) {
  using T = Wide<S>;
  for (int64_t row = 0; row < m.rows && row < kTile<T>; row += kDepth) {
    __syncthreads();  // waits until the tile is written and no thread reads the previous rows
    bool is_finite = true;
    for (int i = static_cast<int>(threadIdx.x); i < kTile<T> * kDepth; i += kThreads) {
      const int64_t from = row + i / kTile<T>, column = first + i % kTile<T>;
      const bool there = from < m.rows && column < m.columns;
      const T element = there ? convert<T>(m.data[from * m.columns + column]) : T{0};
      is_finite = is_finite && element - element == 0;
      space.left[i] = element;
    }
    if (__syncthreads_or(!is_finite))
      add_loaded<true>(space, row, sums);
    else
      add_loaded<false>(space, row, sums);
  }
}

/// Stores f(row, column, i, j) at (row, column) of the tile, for the elements that this thread
/// owns.
template <typename T, typename F>
__device__ void put_tile(const Space<T>& space, F f) {
  for_own<T>([&](int i, int j) {
    const int row = lane_row() + i * kSide, column = lane_column() + j * kSide;
    space.tile[row * kTileStride<T> + column] = f(row, column, i, j);
  });
}

/// Stores a tile's elements starting at column `first`; elements outside `to` are skipped.
template <typename T, typename S>
__device__ void store_part(const Part<T>& part, int64_t rows, int64_t columns, int64_t first,
                           S* to) {
  for_own<T>([&](int i, int j) {
    const int64_t row = lane_row() + i * kSide, column = first + lane_column() + j * kSide;
    if (row < rows && column < columns) to[row * columns + column] = convert<S>(part.at[i][j]);
  });
}

/// The tile of a block: its batch, its first row, and its first column of the result.
struct TilePlace {
  int64_t batch, row, column;
};

/// Returns the tile of this block. Blocks are numbered batch by batch, and row by row of tiles
/// within a batch.
template <typename T>
__device__ TilePlace tile_place(int64_t rows, int64_t columns) {
  const int64_t across = ceil_div(columns, kTile<T>);
  const int64_t down = ceil_div(rows, kTile<T>);
  const int64_t number = blockIdx.x, batch = number / across / down;
  return {batch, number / across % down * kTile<T>, number % across * kTile<T>};
}

template <typename T>
LaunchShape tile_launch(int64_t batches, int64_t rows, int64_t columns) {
  const int64_t across = ceil_div(columns, kTile<T>);
  const int64_t down = ceil_div(rows, kTile<T>);
  return {{static_cast<unsigned>(batches * across * down)}, {kThreads}, Space<T>::kBytes};
}

/// A call of attention or of its gradients. Omitted operands have no data.
struct AttentionRequest {
  AttentionRequest(const Request& request, bool gradients)
      : operands(ops::AttentionOperands::of(request, gradients)),
        at(ops::AttentionExtents(request, operands)) {
    const Shape& query = request.inputs[operands.query].shape;
    if (operands.mask) at.mask = {request.inputs[*operands.mask].shape, query, at.keys};
    if (operands.bias) at.bias = {request.inputs[*operands.bias].shape, query, at.keys};
    if (!operands.lengths) return;
    const TensorDesc& lengths = request.inputs[*operands.lengths];
    at.lengths.dtype = lengths.dtype;
    at.batches_of_length = at.batches / query[0];
    check = add_check(request, lengths, at.keys + 1);
  }

  /// Returns the arguments with the operands' addresses, and launches the check of lengths.
  Attention bind(const Buffers& buffers, const LaunchState& state) const {
    Attention bound = at;
    if (operands.mask) bound.mask.data = buffers.inputs[*operands.mask];
    if (operands.bias) bound.bias.data = buffers.inputs[*operands.bias];
    if (!operands.lengths) return bound;
    bound.lengths.data = buffers.inputs[*operands.lengths];
    launch_check(state, "attention_lengths", bound.lengths, check);
    return bound;
  }

  ops::AttentionOperands operands;
  Attention at;
  RangeCheck check{};
};

/// Returns the library's kernel if the operands have 16 bits and the library supports the call.
/// Otherwise returns the kernel of make(a zero of the operands' type).
template <typename Make>
Kernel library_or_own(const Request& request, Make make) {
  const DType dtype = request.inputs[0].dtype;
  if (is_low_precision(dtype))
    if (std::optional<Kernel> kernel = find_library_attention(request)) return *kernel;
  Kernel kernel = visit_any_float(dtype, make);
  kernel.name = name_own_kernel(request.step);
  return kernel;
}

Kernel prepare_scaled_dot_product_attention_grad(const Request& request);
Kernel prepare_scaled_dot_product_attention_grad_bias(const Request& request);

}  // namespace flow::cuda
