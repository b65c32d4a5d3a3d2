// Pooling windows along both axes of images: where each lies, and which cover an element.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/core/attributes.h"
#include "runtime/base/host_device.h"
#include "runtime/base/shape.h"
#include "runtime/cuda/loops/divider.h"

namespace flow::cuda {

// Index is int32_t where all numbers and places fit, as nearly always, else int64_t.

template <typename Index>
struct Range {
  Index first, end;
};

/// One axis of the windows: window i covers places [start(i), start(i) + size) of the input, of
/// which those outside it are padding.
template <typename Index>
struct WindowAxis {
  Index input, output, size, stride, before;
  Divider by_input{input}, by_output{output}, by_size{size}, by_stride{stride};

  FLOW_HOST_DEVICE Index start(Index i) const { return i * stride - before; }
  /// The part of window i that lies in the input.
  FLOW_HOST_DEVICE Range<Index> inside(Index i) const { return clipped(start(i), size); }
  /// The part of the input from window i to the next one or, behind the last, to the end. The first
  /// window's begins where the input does.
  FLOW_HOST_DEVICE Range<Index> cell(Index i) const {
    return clipped(start(i), i + 1 < output ? stride : input - start(i));
  }
  /// The windows that cover an element of the input.
  FLOW_HOST_DEVICE Range<Index> covering(Index element) const {
    const Index padded = element + before;
    const Index first = padded < size ? 0 : by_stride.divide(padded - size).quotient + 1;
    const Index end = by_stride.divide(padded).quotient + 1;
    return {first, end < output ? end : output};
  }

 private:
  FLOW_HOST_DEVICE Range<Index> clipped(Index first, Index count) const {
    return {first < 0 ? 0 : first, first + count < input ? first + count : input};
  }
};

/// An element of images [planes, rows, columns, channels], or a window over them. There is one
/// channel, and a plane for each, but where channels lie last.
template <typename Index>
struct Pixel {
  Index plane, row, column, channel;
};

/// The windows of a pool or its gradient.
template <typename Index>
struct Window {
  WindowAxis<Index> rows, columns;
  Index channels = 1;
  Divider by_channels{channels};

  /// Does no element lie in two windows?
  bool apart() const { return rows.stride >= rows.size && columns.stride >= columns.size; }

  /// Element i of the input.
  FLOW_HOST_DEVICE Pixel<Index> element(Index i) const {
    return pixel(i, rows.by_input, columns.by_input);
  }
  /// Window i, which makes element i of the output.
  FLOW_HOST_DEVICE Pixel<Index> window(Index i) const {
    return pixel(i, rows.by_output, columns.by_output);
  }
  /// Where an element of the input lies, or what a window makes.
  FLOW_HOST_DEVICE Index input_at(const Pixel<Index>& at, Index row, Index column) const {
    return ((at.plane * rows.input + row) * columns.input + column) * channels + at.channel;
  }
  FLOW_HOST_DEVICE Index output_at(const Pixel<Index>& at, Index row, Index column) const {
    return ((at.plane * rows.output + row) * columns.output + column) * channels + at.channel;
  }
  /// The number kh * KW + kw of an element in a window over it.
  FLOW_HOST_DEVICE Index place(const Pixel<Index>& window, Index row, Index column) const {
    return (row - rows.start(window.row)) * columns.size + column - columns.start(window.column);
  }

 private:
  FLOW_HOST_DEVICE Pixel<Index> pixel(Index i, const Divider& by_rows,
                                      const Divider& by_columns) const {
    const Division<Index> own = by_channels.divide(i), line = by_columns.divide(own.quotient),
                          plane = by_rows.divide(line.quotient);
    return {plane.quotient, plane.remainder, line.remainder, own.remainder};
  }
};

/// f(a step's Window). `input`, `output`: [N, C, H, W], or [N, H, W, C] with channels last.
template <typename F>
auto visit_window(const ops::Attributes& attributes, const Shape& input, const Shape& output,
                  bool channels_last, F f) {
  using Extents = std::vector<int64_t>;
  const auto &size = attributes.get<Extents>("ksize"), &stride = attributes.get<Extents>("strides"),
             &padding = attributes.get<Extents>("padding");
  const auto window = [&]<typename Index>(Index) {
    const auto axis = [&](size_t i) {
      const int logical = static_cast<int>(i) + (channels_last ? 1 : 2);
      return WindowAxis<Index>{static_cast<Index>(input[logical]),
                               static_cast<Index>(output[logical]), static_cast<Index>(size[i]),
                               static_cast<Index>(stride[i]), static_cast<Index>(padding[2 * i])};
    };
    return Window<Index>{axis(0), axis(1), static_cast<Index>(channels_last ? input[3] : 1)};
  };
  const int64_t largest =
      std::max({input.elements(), output.elements(), *std::ranges::max_element(size),
                *std::ranges::max_element(stride), *std::ranges::max_element(padding)});
  // Sums of up to four of them stay narrow.
  return largest < kNarrow / 4 ? f(window(int32_t{})) : f(window(int64_t{}));
}

}  // namespace flow::cuda
