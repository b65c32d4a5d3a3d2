// The tables for resizing along one axis: the places and weights that contribute to each element of
// the result.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/attributes.h"

namespace flow::ops {

/// The largest extent of a resized axis, which keeps tables of taps small.
inline constexpr int64_t kMostResized = int64_t{1} << 24;

/// Element i of the result is the sum of weight * x[index] over its taps. Tap k of element i is
/// stored at k * count + i. Entries after an element's last tap have weight 0.
struct Taps {
  int64_t count = 0;  // the elements of the result
  int64_t width = 0;  // the largest number of taps of an element
  std::vector<int32_t> indices;
  std::vector<double> weights;
};

/// Returns the taps of a resize from `in` to `out` elements with the normalized attributes of
/// `resize`. REQUIRES: both are at most kMostResized and agree with the scale.
Taps resize_taps(const Attributes& attributes, int64_t in, int64_t out);

/// Returns the taps of the gradient: the elements of the result to which each of the `in` elements
/// contributes.
Taps transposed(const Taps& taps, int64_t in);

/// The taps along both axes of images.
struct ImageTaps {
  Taps rows, columns;

  /// Computes the taps of a resize from x to y whose rows are along axis `first` or, with `back`,
  /// the taps of its gradient.
  ImageTaps(const Attributes& attributes, const Shape& x, const Shape& y, int first, bool back) {
    const auto along = [&](int axis) {
      const Taps taps = resize_taps(attributes, x[axis], y[axis]);
      return back ? transposed(taps, x[axis]) : taps;
    };
    rows = along(first);
    columns = along(first + 1);
  }
};

}  // namespace flow::ops
