// Copies elements between arrays with different strides.
#include "runtime/cpu/loops/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace flow::cpu {
namespace {

using Axis = StridedCopy::Axis;

constexpr int64_t kTile = 32, kBlock = 8;

/// The position in the loops around the innermost ones, and the resulting offsets.
class Odometer {
 public:
  Odometer(const std::vector<Axis>& axes, int64_t from, int64_t to, int64_t row)
      : axes_(axes), from_(from), to_(to) {
    for (size_t i = axes.size(); i-- > 0;) {
      at_[i] = row % axes[i].extent;
      row /= axes[i].extent;
      from_ += at_[i] * axes[i].from;
      to_ += at_[i] * axes[i].to;
    }
  }
  /// Returns the number of rows from here to the end of the innermost of these loops.
  int64_t left() const { return axes_.empty() ? 1 : axes_.back().extent - at_[axes_.size() - 1]; }
  /// REQUIRES: rows <= left().
  void advance(int64_t rows) {
    for (size_t i = axes_.size(); i-- > 0; rows = 1) {
      from_ += rows * axes_[i].from;
      to_ += rows * axes_[i].to;
      at_[i] += rows;
      if (at_[i] < axes_[i].extent) return;
      from_ -= at_[i] * axes_[i].from;
      to_ -= at_[i] * axes_[i].to;
      at_[i] = 0;
    }
  }
  int64_t from() const { return from_; }
  int64_t to() const { return to_; }

 private:
  const std::vector<Axis>& axes_;
  std::array<int64_t, 2 * plan::kMaxRank> at_{};
  int64_t from_, to_;
};

/// Copies bytes. Short rows are copied inline, because a call of memcpy takes as long as the copy
/// itself.
void copy_bytes(const void* from, void* to, size_t bytes) {
  constexpr size_t kVector = 16, kShort = 16 * kVector;
  if (bytes > kShort || bytes % kVector != 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; i += kVector)
    std::memcpy(static_cast<std::byte*>(to) + i, static_cast<const std::byte*>(from) + i, kVector);
}

template <typename T>
void copy_row(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t n) {
  if (from_step == 1 && to_step == 1) {
    copy_bytes(from, to, static_cast<size_t>(n) * sizeof(T));
  } else if (from_step == 0 && to_step == 1) {
    std::fill_n(to, n, *from);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }
}

/// to[c * to_row + r] = from[r * from_row + c] for r < rows and c < columns.
template <typename T>
void transpose_plain(const T* from, int64_t from_row, T* to, int64_t to_row, int64_t rows,
                     int64_t columns) {
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) to[c * to_row + r] = from[r * from_row + c];
}

/// Eight numbers of four bytes.
using Eight = uint32_t __attribute__((vector_size(32)));

/// Transposes 8 rows and columns: pairs of rows are interleaved, then pairs of pairs, and then
/// halves are exchanged.
[[gnu::always_inline]] inline void transpose_block(const uint32_t* from, int64_t from_row,
                                                   uint32_t* to, int64_t to_row) {
  Eight x[kBlock], y[kBlock];
  for (int64_t r = 0; r < kBlock; ++r) std::memcpy(&x[r], from + r * from_row, sizeof(Eight));
  for (int64_t r = 0; r < kBlock; r += 2) {
    y[r] = __builtin_shufflevector(x[r], x[r + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    y[r + 1] = __builtin_shufflevector(x[r], x[r + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int64_t r = 0; r < kBlock; r += 4)
    for (int64_t k = 0; k < 2; ++k) {
      const Eight &a = y[r + k], &b = y[r + k + 2];
      x[r + 2 * k] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
      x[r + 2 * k + 1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int64_t r = 0; r < 4; ++r) {
    y[r] = __builtin_shufflevector(x[r], x[r + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    y[r + 4] = __builtin_shufflevector(x[r], x[r + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int64_t c = 0; c < kBlock; ++c) std::memcpy(to + c * to_row, &y[c], sizeof(Eight));
}

/// Transposes a whole tile by blocks.
FLOW_VECTORIZED void transpose_whole_tile(const uint32_t* from, int64_t from_row, uint32_t* to,
                                          int64_t to_row) {
  for (int64_t r = 0; r < kTile; r += kBlock)
    for (int64_t c = 0; c < kTile; c += kBlock)
      transpose_block(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
}

template <typename T>
void transpose_tile(const T* from, int64_t from_row, T* to, int64_t to_row, int64_t rows,
                    int64_t columns) {
  if constexpr (sizeof(T) == 4) {
    if (rows == kTile && columns == kTile) return transpose_whole_tile(from, from_row, to, to_row);
  }
  transpose_plain(from, from_row, to, to_row, rows, columns);
}

}  // namespace

StridedCopy::StridedCopy(size_t element, std::vector<Axis> axes, int64_t from_offset,
                         int64_t to_offset)
    : element_(element), from_offset_(from_offset), to_offset_(to_offset) {
  std::ranges::stable_sort(axes, std::greater(), &Axis::to);
  for (const Axis& axis : axes) {
    if (axis.extent == 1) continue;
    Axis* before = outer_.empty() ? nullptr : &outer_.back();
    if (before && before->from == axis.from * axis.extent && before->to == axis.to * axis.extent)
      *before = {before->extent * axis.extent, axis.from, axis.to};
    else
      outer_.push_back(axis);
  }
  find_order();
}

void StridedCopy::find_order() {
  if (!outer_.empty()) {
    columns_ = outer_.back();
    outer_.pop_back();
  }
  const auto adjacent = std::ranges::find(outer_, 1, &Axis::from);
  tiled_ = columns_.to == 1 && columns_.from != 1 && columns_.from > 0 && adjacent != outer_.end();
  if (tiled_) {
    across_ = *adjacent;
    outer_.erase(adjacent);
  }
  for (const Axis& axis : outer_) rows_ *= axis.extent;
}

template <typename T>
void StridedCopy::copy_rows(int threads, const T* from, T* to) const {
  const int64_t pieces = ceil_div(columns_.extent, kPiece);
  if (pieces > 1) {
    parallel_for(threads, rows_ * pieces, [&](int64_t chunk, int) {
      const Odometer at(outer_, from_offset_, to_offset_, chunk / pieces);
      const int64_t first = chunk % pieces * kPiece;
      copy_row(from + at.from() + first * columns_.from, columns_.from,
               to + at.to() + first * columns_.to, columns_.to,
               std::min(kPiece, columns_.extent - first));
    });
    return;
  }
  for_pieces(threads, rows_, std::max<int64_t>(1, kPiece / columns_.extent),
             [&](int64_t first, int64_t end) {
               Odometer at(outer_, from_offset_, to_offset_, first);
               const Axis inner = outer_.empty() ? Axis{1, 0, 0} : outer_.back();
               for (int64_t row = first, count = 0; row < end; row += count, at.advance(count)) {
                 count = std::min(end - row, at.left());
                 for (int64_t i = 0; i < count; ++i)
                   copy_row(from + at.from() + i * inner.from, columns_.from,
                            to + at.to() + i * inner.to, columns_.to, columns_.extent);
               }
             });
}

template <typename T>
void StridedCopy::transpose_tiles(int threads, const T* from, T* to) const {
  const int64_t down = ceil_div(across_.extent, kTile), along = ceil_div(columns_.extent, kTile);
  for_pieces(
      threads, rows_ * down * along, kPiece / (kTile * kTile), [&](int64_t first, int64_t end) {
        for (int64_t tile = first; tile < end; ++tile) {
          const Odometer at(outer_, from_offset_, to_offset_, tile / (down * along));
          const int64_t c = tile / along % down * kTile, r = tile % along * kTile;
          transpose_tile(from + at.from() + r * columns_.from + c, columns_.from,
                         to + at.to() + c * across_.to + r, across_.to,
                         std::min(kTile, columns_.extent - r), std::min(kTile, across_.extent - c));
        }
      });
}

template <typename T>
void StridedCopy::run_typed(int threads, const T* from, T* to) const {
  if (tiled_)
    transpose_tiles(threads, from, to);
  else
    copy_rows(threads, from, to);
}

void StridedCopy::run(int threads, const std::byte* from, std::byte* to) const {
  visit_size(element_, [&]<typename T>(T) {
    run_typed(threads, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to));
  });
}

std::vector<Axis> axes_of(const Shape& shape, const std::vector<int64_t>& from,
                          const std::vector<int64_t>& to) {
  std::vector<Axis> axes;
  for (int i = 0; i < shape.rank(); ++i)
    axes.push_back({shape[i], from[static_cast<size_t>(i)], to[static_cast<size_t>(i)]});
  return axes;
}

}  // namespace flow::cpu
