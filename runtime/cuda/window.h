// A pooling window's attributes along one axis, and which windows cover an element.
#pragma once

#include <cstdint>

#include "runtime/base/host_device.h"
#include "runtime/base/shape.h"
#include "runtime/plan/attributes.h"

namespace flow::cuda {

struct Range {
  int64_t first, end;
};

/// One axis of the windows: window i covers places [start(i), start(i) + size) of the input, of
/// which those outside it are padding.
struct WindowAxis {
  int64_t input, output, size, stride, before;

  FLOW_HOST_DEVICE int64_t start(int64_t i) const { return i * stride - before; }
  /// Places of window i inside the input, counted from its start.
  FLOW_HOST_DEVICE Range inside(int64_t i) const {
    const int64_t s = start(i), rest = input - s;
    return {s < 0 ? -s : 0, rest < size ? rest : size};
  }
  /// The windows that cover an element of the input.
  FLOW_HOST_DEVICE Range covering(int64_t element) const {
    const int64_t padded = element + before;
    const int64_t first = padded < size ? 0 : (padded - size) / stride + 1;
    const int64_t end = padded / stride + 1;
    return {first, end < output ? end : output};
  }
};

/// The windows of a max_pool2d step or its gradient. `input`, `output`: [N, C, H, W].
struct Window {
  Window(const plan::Attributes& attributes, const Shape& input, const Shape& output)
      : rows(axis(attributes, input, output, 0)), columns(axis(attributes, input, output, 1)) {}

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

}  // namespace flow::cuda
