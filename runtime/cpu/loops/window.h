// A pool's windows: which of their places lie inside the input, and the planes they slide over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/core/attributes.h"
#include "runtime/base/array.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// Places of a window in [first, end) along one axis.
struct Places {
  int64_t first, end;
};

/// Windows in [first, end) along one axis.
struct Reach {
  int64_t first, end;
};

/// One axis of the windows: sizes, and where window `i` starts (negative inside the padding).
struct WindowAxis {
  int64_t input, output, size, stride, before;

  int64_t start(int64_t i) const { return i * stride - before; }
  Places inside(int64_t i) const {
    const int64_t s = start(i);
    return {std::clamp<int64_t>(-s, 0, size), std::clamp<int64_t>(input - s, 0, size)};
  }
  /// The windows whose place `k` lies inside the input.
  Reach reach(int64_t k) const {
    const int64_t padding = before - k, rest = input + padding;
    const int64_t first = padding > 0 ? ceil_div(padding, stride) : 0;
    const int64_t end = rest > 0 ? (rest - 1) / stride + 1 : 0;
    return {std::min(first, output), std::min(end, output)};
  }
};

/// The windows of a pool or of its gradient. `input`, `output`: [N, C, H, W].
struct Window {
  Window(const plan::Attributes& attributes, const Shape& input, const Shape& output)
      : rows(axis(attributes, input, output, 0)), columns(axis(attributes, input, output, 1)) {}

  /// Is an element in two windows?
  bool overlap() const { return rows.size > rows.stride || columns.size > columns.stride; }
  /// True when every input element is in exactly one window.
  bool tiles() const {
    return rows.size == rows.stride && columns.size == columns.stride && rows.before == 0 &&
           columns.before == 0 && rows.output * rows.size == rows.input &&
           columns.output * columns.size == columns.input;
  }

  WindowAxis rows, columns;

 private:
  static WindowAxis axis(const plan::Attributes& attributes, const Shape& input,
                         const Shape& output, size_t i) {
    using Integers = std::vector<int64_t>;
    const int logical = static_cast<int>(i) + 2;
    return {input[logical], output[logical], attributes.get<Integers>("ksize")[i],
            attributes.get<Integers>("strides")[i], attributes.get<Integers>("padding")[2 * i]};
  }
};

/// The windows of a step, and the planes [H, W, channels] that they slide over: a whole image where
/// channels are innermost, one channel of an image where they are not.
struct Pooling {
  Pooling(const Request& request, const TensorDesc& input, const TensorDesc& output)
      : window(request.step.attributes, input.shape, output.shape) {
    const bool innermost = input.layout == Layout::kChannelsLast;
    planes = input.shape[0] * (innermost ? 1 : input.shape[1]);
    channels = innermost ? input.shape[1] : 1;
  }
  /// Elements of a plane of the input, of a row of results, of a plane of them.
  int64_t input_plane() const { return window.rows.input * window.columns.input * channels; }
  int64_t output_row() const { return window.columns.output * channels; }
  int64_t output_plane() const { return window.rows.output * output_row(); }

  Window window;
  int64_t planes, channels;  // channels: of one plane
};

}  // namespace flow::cpu
