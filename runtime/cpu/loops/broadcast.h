// Loops over up to three operands that broadcast to a result. They are the smallest number of
// nested loops that visit every element in the memory order of the result.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/vector_math.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/parallel.h"

namespace flow::cpu {

/// Returns the distance in elements between neighbors along each logical axis.
std::vector<int64_t> strides_of(const TensorDesc& desc);

/// Returns these distances along the axes of a result of that rank, with 0 where the tensor is
/// repeated.
std::vector<int64_t> broadcast_strides(const TensorDesc& desc, int rank);

/// Returns the axes of a tensor in memory order, outermost first.
std::vector<int> memory_order(const TensorDesc& desc);

/// Shapes broadcast by NumPy's rules. Offsets and strides are in elements.
class Broadcast {
 public:
  static constexpr size_t kMost = 3;  // the largest number of operands
  using PerOperand = std::array<int64_t, kMost>;

  /// The elements that the two innermost loops cover: `rows` rows of `columns` elements.
  struct Block {
    int64_t rows = 1, columns = 1;
    int64_t out = 0;         // the offset of the result's first element; its elements are adjacent
    PerOperand first = {};   // the offsets of the operands' first elements
    PerOperand row = {};     // the operands' strides between rows
    PerOperand column = {};  // the operands' strides within a row
  };

  /// REQUIRES: There are at most kMost operands, whose shapes broadcast to that of `out`.
  Broadcast(std::span<const TensorDesc> operands, const TensorDesc& out);

  /// Returns the number of chunks for parallel_for, which depends only on the shapes.
  int64_t chunks() const { return chunks_; }

  /// Calls f with the blocks of one chunk in order. Allocates nothing.
  template <typename F>
  void for_blocks(int64_t chunk, F f) const {
    if (pieces_ > 1) return f(piece(chunk));
    int64_t row = chunk * rows_per_chunk_;
    const int64_t end = std::min(rows_, row + rows_per_chunk_);
    while (row < end) {
      const Block block = from_row(row, end);
      f(block);
      row += block.rows;
    }
  }

 private:
  struct Loop {
    int64_t extent;
    PerOperand strides;
  };
  Block from_row(int64_t row, int64_t end) const;
  Block piece(int64_t chunk) const;

  std::vector<Loop> loops_;  // outermost first, at least two
  int64_t rows_ = 1;         // the product of all extents except the last
  int64_t rows_per_chunk_ = 1;
  int64_t pieces_ = 1;  // pieces of a long row; if there are several, a chunk is one piece
  int64_t chunks_ = 1;
};

/// Computes a row. Each operand either advances (a stride of 1) or stays (a stride of 0).
template <bool kA, bool kB, typename F, typename A, typename B, typename R>
FLOW_INLINE void apply_row(F f, const A* a, const B* b, R* out, int64_t n) {
  const A a0 = *a;
  const B b0 = *b;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = f(kA ? a[i] : a0, kB ? b[i] : b0);
}

/// out = f(a, b) over a block. It is inlined, so that it uses the caller's instruction set.
template <typename F, typename A, typename B, typename R>
FLOW_INLINE void apply_block(F f, const Broadcast::Block& block, const A* a, const B* b, R* out) {
  const int64_t n = block.columns, da = block.column[0], db = block.column[1];
  for (int64_t row = 0; row < block.rows; ++row) {
    const A* ra = a + block.first[0] + row * block.row[0];
    const B* rb = b + block.first[1] + row * block.row[1];
    R* ry = out + block.out + row * n;
    if (da == 1 && db == 1)
      apply_row<true, true>(f, ra, rb, ry, n);
    else if (da == 1 && db == 0)
      apply_row<true, false>(f, ra, rb, ry, n);
    else if (da == 0 && db == 1)
      apply_row<false, true>(f, ra, rb, ry, n);
    else if (da == 0 && db == 0)
      apply_row<false, false>(f, ra, rb, ry, n);
    else
      for (int64_t i = 0; i < n; ++i) ry[i] = f(ra[i * da], rb[i * db]);
  }
}

/// Computes a row or a block of three operands.
template <bool kA, bool kB, bool kC, typename F, typename A, typename T>
FLOW_INLINE void apply_row(F f, const A* a, const T* b, const T* c, T* out, int64_t n) {
  const A a0 = *a;
  const T b0 = *b, c0 = *c;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = f(kA ? a[i] : a0, kB ? b[i] : b0, kC ? c[i] : c0);
}

template <typename F, typename A, typename T>
FLOW_INLINE void apply_block(F f, const Broadcast::Block& block, const A* a, const T* b, const T* c,
                             T* out) {
  const int64_t n = block.columns;
  const auto [da, db, dc] = block.column;
  for (int64_t row = 0; row < block.rows; ++row) {
    const A* ra = a + block.first[0] + row * block.row[0];
    const T* rb = b + block.first[1] + row * block.row[1];
    const T* rc = c + block.first[2] + row * block.row[2];
    T* ry = out + block.out + row * n;
    if (da == 1 && db == 1 && dc == 1)
      apply_row<true, true, true>(f, ra, rb, rc, ry, n);
    else if (da == 1 && db == 1 && dc == 0)
      apply_row<true, true, false>(f, ra, rb, rc, ry, n);
    else if (da == 1 && db == 0 && dc == 1)
      apply_row<true, false, true>(f, ra, rb, rc, ry, n);
    else if (da == 0 && db == 1 && dc == 1)
      apply_row<false, true, true>(f, ra, rb, rc, ry, n);
    else
      for (int64_t i = 0; i < n; ++i) ry[i] = f(ra[i * da], rb[i * db], rc[i * dc]);
  }
}

/// Returns a Kernel that calls run(block, buffers) with the buffers of a launch for each block of
/// the result.
template <typename Run>
Kernel broadcast_kernel(const Request& request, Run run) {
  Kernel kernel;
  kernel.launch = [=, threads = request.threads,
                   loops = Broadcast(request.inputs, request.outputs[0])](const Buffers& buffers,
                                                                          const CallState&) {
    parallel_for(threads, loops.chunks(), [&](int64_t chunk, int) {
      loops.for_blocks(chunk, [&](const Broadcast::Block& block) { run(block, buffers); });
    });
  };
  return kernel;
}

}  // namespace flow::cpu
