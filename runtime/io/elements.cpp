// Copies elements in the order of the result, in tiles if neighbors in the result are far apart in
// the source.
#include "runtime/io/elements.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace flow::io {
namespace {

/// An axis of the result: its extent, and its strides in the source and in the result.
struct PermutedAxis {
  int64_t extent = 1, from = 0, to = 0;
};

/// Returns the axes of the result from outermost to innermost.
std::vector<PermutedAxis> axes_of(const Shape& shape, std::span<const int64_t> perm) {
  std::vector<PermutedAxis> axes(perm.size());
  std::vector<int64_t> strides(perm.size());
  int64_t stride = 1;
  for (size_t axis = perm.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[static_cast<int>(axis)];
  }
  stride = 1;
  for (size_t axis = perm.size(); axis-- > 0;) {
    const auto source = static_cast<size_t>(perm[axis]);
    axes[axis] = {shape[static_cast<int>(source)], strides[source], stride};
    stride *= axes[axis].extent;
  }
  return axes;
}

/// Copies a matrix of two axes tile by tile: a tile stays in the cache even if its rows and columns
/// are far apart.
template <size_t kElement>
void copy_tiles(const std::byte* from, const PermutedAxis& rows, const PermutedAxis& columns,
                std::byte* to) {
  constexpr int64_t kTile = 32;
  for (int64_t row = 0; row < rows.extent; row += kTile)
    for (int64_t column = 0; column < columns.extent; column += kTile)
      for (int64_t i = row; i < std::min(row + kTile, rows.extent); ++i)
        for (int64_t k = column; k < std::min(column + kTile, columns.extent); ++k)
          std::memcpy(to + static_cast<size_t>(i * rows.to + k * columns.to) * kElement,
                      from + static_cast<size_t>(i * rows.from + k * columns.from) * kElement,
                      kElement);
}

void copy_matrix(const std::byte* from, const PermutedAxis& rows, const PermutedAxis& columns,
                 size_t element, std::byte* to) {
  switch (element) {
    case 1:
      return copy_tiles<1>(from, rows, columns, to);
    case 2:
      return copy_tiles<2>(from, rows, columns, to);
    case 4:
      return copy_tiles<4>(from, rows, columns, to);
    default:
      return copy_tiles<8>(from, rows, columns, to);
  }
}

/// Returns the axis that forms tiles with the last axis: the one whose elements are nearest in the
/// source.
size_t nearest_axis(const std::vector<PermutedAxis>& axes) {
  size_t nearest = axes.size() - 2;
  for (size_t axis = 0; axis + 1 < axes.size(); ++axis)
    if (axes[axis].extent > 1 && axes[axis].from < axes[nearest].from) nearest = axis;
  return nearest;
}

}  // namespace

Shape permuted(const Shape& shape, std::span<const int64_t> perm) {
  std::vector<int64_t> extents;
  for (const int64_t axis : perm) extents.push_back(shape[static_cast<int>(axis)]);
  return Shape(std::move(extents));
}

bool are_transposed(const Shape& a, const Shape& b) {
  return a != b && a.rank() == 2 && b.rank() == 2 && a[0] == b[1] && a[1] == b[0];
}

void copy_permuted(const std::byte* from, const Shape& shape, std::span<const int64_t> perm,
                   size_t element, std::byte* to) {
  // The other extents of an empty shape may be arbitrarily large.
  if (shape.elements() == 0) return;
  std::vector<PermutedAxis> axes = axes_of(shape, perm);
  while (axes.size() < 2) axes.insert(axes.begin(), PermutedAxis());
  const size_t nearest = nearest_axis(axes);
  const PermutedAxis columns = axes.back(), rows = axes[nearest];
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(nearest));
  axes.pop_back();
  std::vector<int64_t> index(axes.size());
  for (;;) {
    copy_matrix(from, rows, columns, element, to);
    size_t axis = axes.size();
    for (;;) {  // Advances the index of the outer axes, in which the last axis changes fastest.
      if (axis-- == 0) return;
      from += axes[axis].from * static_cast<int64_t>(element);
      to += axes[axis].to * static_cast<int64_t>(element);
      if (++index[axis] < axes[axis].extent) break;
      from -= axes[axis].from * index[axis] * static_cast<int64_t>(element);
      to -= axes[axis].to * index[axis] * static_cast<int64_t>(element);
      index[axis] = 0;
    }
  }
}

}  // namespace flow::io
