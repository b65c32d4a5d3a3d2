// What resizes along one axis read: the places and weights behind each element of the result.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/attributes.h"

namespace flow::ops {

/// The most elements of a resized axis, so that tables of taps stay small.
inline constexpr int64_t kMostResized = int64_t{1} << 24;

/// Element i of the result is the sum of weight * x[index] over its taps. Tap k of element i is at
/// k * count + i, with weights of 0 behind its last one.
struct Taps {
  int64_t count = 0;  // elements of the result
  int64_t width = 0;  // the most taps of one
  std::vector<int32_t> indices;
  std::vector<double> weights;
};

/// Of a resize from `in` to `out` elements, with the normalized attributes of `resize`.
/// REQUIRES: both are at most kMostResized, and fit the scale.
Taps resize_taps(const Attributes& attributes, int64_t in, int64_t out);

/// Of its gradient: which elements of the result each of the `in` elements went into.
Taps transposed(const Taps& taps, int64_t in);

/// Taps along both axes of images.
struct ImageTaps {
  Taps rows, columns;

  /// Of a resize from x to y whose rows lie along axis `first`, or with `back` of its gradient.
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
