// Transposes matrices of samples.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace flow::data {

/// Rows of samples in memory that are `stride` samples apart.
template <typename Sample>
struct Rows {
  Sample* data;
  size_t stride;

  Sample* at(size_t row, size_t column) const { return data + row * stride + column; }
};

inline constexpr size_t kTransposed = 8;  // side of the blocks that are transposed

/// Transposes a block of kTransposed rows and columns.
template <typename Sample>
void transpose_block(Rows<const Sample> from, Rows<Sample> to) {
  for (size_t y = 0; y < kTransposed; ++y)
    for (size_t x = 0; x < kTransposed; ++x) *to.at(x, y) = *from.at(y, x);
}

/// Exchanges the bits of `mask` in `b` with those of `mask` << `shift` in `a`.
inline void exchange(uint64_t& a, uint64_t& b, int shift, uint64_t mask) {
  const uint64_t different = ((a >> shift) ^ b) & mask;
  a ^= different << shift;
  b ^= different;
}

/// Rows of bytes are words, in which first blocks of 4 x 4, then of 2 x 2, then bytes are exchanged
/// (H. S. Warren, "Hacker's Delight", 7-3).
inline void transpose_block(Rows<const uint8_t> from, Rows<uint8_t> to) {
  static_assert(std::endian::native == std::endian::little && kTransposed == sizeof(uint64_t));
  std::array<uint64_t, kTransposed> rows;
  for (size_t i = 0; i < kTransposed; ++i) std::memcpy(&rows[i], from.at(i, 0), sizeof(uint64_t));
  for (const size_t i : {0, 1, 2, 3}) exchange(rows[i], rows[i + 4], 32, 0x00000000ffffffff);
  for (const size_t i : {0, 1, 4, 5}) exchange(rows[i], rows[i + 2], 16, 0x0000ffff0000ffff);
  for (const size_t i : {0, 2, 4, 6}) exchange(rows[i], rows[i + 1], 8, 0x00ff00ff00ff00ff);
  for (size_t i = 0; i < kTransposed; ++i) std::memcpy(to.at(i, 0), &rows[i], sizeof(uint64_t));
}

/// Transposes `rows` rows of `columns` samples. The last blocks overlap others if kTransposed does
/// not divide an extent. REQUIRES: both extents are at least kTransposed.
template <typename Sample>
void transpose(Rows<const Sample> from, size_t rows, size_t columns, Rows<Sample> to) {
  for (size_t i = 0; i < rows; i += kTransposed) {
    const size_t y = std::min(i, rows - kTransposed);
    for (size_t j = 0; j < columns; j += kTransposed) {
      const size_t x = std::min(j, columns - kTransposed);
      transpose_block({from.at(y, x), from.stride}, Rows<Sample>{to.at(x, y), to.stride});
    }
  }
}

}  // namespace flow::data
