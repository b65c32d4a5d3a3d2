// The starts of the products of a matmul whose leading axes broadcast.
#pragma once

#include <utility>
#include <vector>

#include "runtime/base/array.h"

namespace flow {

/// The offsets in elements at which one product, or one batched product, begins.
struct ProductStart {
  int64_t a, b, out;
};

/// Returns the shape with ones prepended up to `rank` axes.
inline Shape padded(const Shape& shape, int rank) {
  std::vector<int64_t> extents(static_cast<size_t>(rank - shape.rank()), 1);
  extents.insert(extents.end(), shape.begin(), shape.end());
  return Shape(std::move(extents));
}

/// Returns one start for each index of the axes of `out` before `outer`. REQUIRES: all shapes have
/// the same rank.
inline std::vector<ProductStart> starts_of(const Shape& a, const Shape& b, const Shape& out,
                                           int outer) {
  const auto stride = [](const Shape& shape, int axis) {
    return shape[axis] == 1 ? 0 : shape.elements(axis + 1, shape.rank());
  };
  std::vector<ProductStart> starts = {{0, 0, 0}};
  for (int axis = 0; axis < outer; ++axis) {
    std::vector<ProductStart> more;
    for (const ProductStart& start : starts)
      for (int64_t i = 0; i < out[axis]; ++i)
        more.push_back({start.a + i * stride(a, axis), start.b + i * stride(b, axis),
                        start.out + i * stride(out, axis)});
    starts = std::move(more);
  }
  return starts;
}

}  // namespace flow
