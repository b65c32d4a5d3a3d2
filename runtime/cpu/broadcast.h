// Loops over two operands that broadcast to a result: the fewest nested loops that reach every
// element in the order in which the result lies in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// The distance in elements between neighbours along each logical axis.
std::vector<int64_t> strides_of(const TensorDesc& desc);

/// The axes of a tensor, from the one that moves slowest in memory.
std::vector<int> memory_order(const TensorDesc& desc);

/// Shapes broadcast as NumPy's do. Offsets and strides are in elements.
class Broadcast {
 public:
  /// What the two innermost loops cover: `rows` rows of `columns` elements.
  struct Block {
    int64_t a = 0, b = 0, out = 0;  // offsets of the first elements
    int64_t rows = 1, columns = 1;
    int64_t a_row = 0, b_row = 0;        // strides between rows; the result's rows are adjacent
    int64_t a_column = 0, b_column = 0;  // strides within a row; the result's is 1
  };

  /// REQUIRES: the shapes of `a` and `b` broadcast to that of `out`.
  Broadcast(const TensorDesc& a, const TensorDesc& b, const TensorDesc& out);

  /// Chunks for parallel_for. They depend on the shapes alone.
  int64_t chunks() const { return chunks_; }

  /// Calls f with the blocks of one chunk, in order. Allocates nothing.
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
    int64_t extent, a, b;  // strides
  };
  Block from_row(int64_t row, int64_t end) const;
  Block piece(int64_t chunk) const;

  std::vector<Loop> loops_;  // outermost first, at least two
  int64_t rows_ = 1;         // product of all extents but the last
  int64_t rows_per_chunk_ = 1;
  int64_t pieces_ = 1;  // of a long row; one row a chunk at most then
  int64_t chunks_ = 1;
};

/// out = Op::apply(a, b) over a block. Inlined, so that it takes the caller's instruction set.
template <typename Op, typename T, typename R>
[[gnu::always_inline]] inline void apply_block(const Broadcast::Block& block, const T* a,
                                               const T* b, R* out) {
  const int64_t n = block.columns;
  for (int64_t row = 0; row < block.rows; ++row) {
    const T* ra = a + block.a + row * block.a_row;
    const T* rb = b + block.b + row * block.b_row;
    R* ry = out + block.out + row * n;
    if (block.a_column == 1 && block.b_column == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) ry[i] = Op::apply(ra[i], rb[i]);
    } else if (block.a_column == 1 && block.b_column == 0) {
      const T scalar = *rb;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) ry[i] = Op::apply(ra[i], scalar);
    } else if (block.a_column == 0 && block.b_column == 1) {
      const T scalar = *ra;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) ry[i] = Op::apply(scalar, rb[i]);
    } else {
      for (int64_t i = 0; i < n; ++i)
        ry[i] = Op::apply(ra[i * block.a_column], rb[i * block.b_column]);
    }
  }
}

}  // namespace flow::cpu
