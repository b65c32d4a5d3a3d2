// The windows of a pool over images: which of their places lie inside the input, and the planes
// over which they slide.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/core/attributes.h"
#include "runtime/base/array.h"
#include "runtime/base/host_device.h"

namespace flow {

/// Elements, windows or places in [first, end) along one axis.
template <typename Index>
struct WindowRange {
  Index first, end;
};

/// One axis of the windows: its sizes, and the start of window `i`, which is negative if the window
/// begins in the padding.
template <typename Index>
struct WindowAxis {
  Index input, output, size, stride, before;

  FLOW_HOST_DEVICE Index start(Index i) const { return i * stride - before; }
  /// Returns the places of window i that lie inside the input.
  WindowRange<Index> inside(Index i) const {
    const Index s = start(i);
    return {std::clamp<Index>(-s, 0, size), std::clamp<Index>(input - s, 0, size)};
  }
  /// Returns the windows whose place `k` lies inside the input.
  WindowRange<Index> reach(Index k) const {
    const Index padding = before - k, rest = input + padding;
    const Index first = padding > 0 ? ceil_div(padding, stride) : 0;
    const Index end = rest > 0 ? (rest - 1) / stride + 1 : 0;
    return {std::min(first, output), std::min(end, output)};
  }
};

/// The windows of a pool over images (N, C, H, W), or over images stored in C order as (N, H, W, C)
/// if the shapes have their channels last.
struct PoolWindows {
  PoolWindows(const ops::Attributes& attributes, const Shape& input, const Shape& output,
              bool channels_last = false)
      : rows(axis(attributes, input, output, 0, channels_last)),
        columns(axis(attributes, input, output, 1, channels_last)) {}

  /// Returns true if windows overlap, so that an element can be in more than one of them.
  bool overlap() const { return rows.size > rows.stride || columns.size > columns.stride; }
  /// Returns true if every input element is in exactly one window.
  bool tiles() const {
    return rows.size == rows.stride && columns.size == columns.stride && rows.before == 0 &&
           columns.before == 0 && rows.output * rows.size == rows.input &&
           columns.output * columns.size == columns.input;
  }

  WindowAxis<int64_t> rows, columns;

 private:
  static WindowAxis<int64_t> axis(const ops::Attributes& attributes, const Shape& input,
                                  const Shape& output, size_t i, bool channels_last) {
    using Integers = std::vector<int64_t>;
    const int logical = static_cast<int>(i) + (channels_last ? 1 : 2);
    return {input[logical], output[logical], attributes.get<Integers>("ksize")[i],
            attributes.get<Integers>("strides")[i], attributes.get<Integers>("padding")[2 * i]};
  }
};

/// The windows of a step, and the planes [H, W, channels] over which they slide. A plane is a whole
/// image if channels are innermost, and otherwise one channel of an image.
struct Pooling {
  Pooling(const ops::Attributes& attributes, const Shape& input, const Shape& output,
          bool innermost = false)
      : window(attributes, input, output),
        planes(input[0] * (innermost ? 1 : input[1])),
        channels(innermost ? input[1] : 1) {}

  /// The number of elements of an input plane, of a row of results, and of a plane of results.
  int64_t input_plane() const { return window.rows.input * window.columns.input * channels; }
  int64_t output_row() const { return window.columns.output * channels; }
  int64_t output_plane() const { return window.rows.output * output_row(); }

  PoolWindows window;
  int64_t planes, channels;  // `channels` counts those of one plane
};

}  // namespace flow
