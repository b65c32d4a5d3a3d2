// The integer weights of resizing filters along one axis.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/image/resize.h"

namespace flow::data {

inline constexpr int kWeightBits = 22;  // fraction bits of a weight

/// The inputs of one output: `count` from `first` on, with the weights from `weight` on.
struct Taps {
  int64_t first, count;
  size_t weight;
};

/// The weights for neighboring outputs of an axis.
struct FilterAxis {
  std::vector<Taps> taps;
  std::vector<int32_t> weights;

  int64_t first_in() const { return taps.front().first; }
  int64_t end_in() const { return taps.back().first + taps.back().count; }
};

/// Returns the weights for `count` outputs from `first_out` on, of the `out` to which `in` inputs
/// are resized. They are equal to Pillow's: its order of operations in float64 and its rounding.
/// The absolute weights of an output add to at most 1.25, plus rounding errors.
/// REQUIRES: in, out and count are positive; `filter` is kBilinear or kBicubic.
FilterAxis filter_axis(int64_t in, int64_t out, int64_t first_out, int64_t count, Filter filter);

}  // namespace flow::data
