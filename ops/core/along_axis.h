// A tensor as seen by kernels that work along one of its axes.
#pragma once

#include <cstdint>

#include "ops/core/attributes.h"
#include "runtime/base/host_device.h"

namespace flow::ops {

/// The shape of a tensor around an axis, reduced to (outer, n, inner): the number of elements
/// before, along and after the axis. A column is the n elements along the axis, which are `inner`
/// elements apart.
struct AlongAxis {
  int64_t outer, n, inner;

  AlongAxis(const Shape& shape, int axis)
      : outer(shape.elements(0, axis)),
        n(shape[axis]),
        inner(shape.elements(axis + 1, shape.rank())) {}
  /// Uses the axis that the attribute `axis` names.
  AlongAxis(const Shape& shape, const Attributes& attributes)
      : AlongAxis(shape, static_cast<int>(attributes.get<int64_t>("axis"))) {}

  FLOW_HOST_DEVICE int64_t columns() const { return outer * inner; }
  /// The index of the first element of column c.
  FLOW_HOST_DEVICE int64_t start(int64_t c) const { return c / inner * n * inner + c % inner; }
  /// The index of element i of the column at (`outermost`, `innermost`); for column c these are c /
  /// inner and c % inner.
  FLOW_HOST_DEVICE int64_t at(int64_t outermost, int64_t i, int64_t innermost) const {
    return (outermost * n + i) * inner + innermost;
  }
};

/// A tensor (outer, n, inner) and a selection of its elements along the axis: (outer, count,
/// inner).
struct PickedAlongAxis : AlongAxis {
  int64_t count;

  PickedAlongAxis(const Shape& shape, const Shape& picked, const Attributes& attributes)
      : AlongAxis(shape, attributes), count(picked.elements() / columns()) {}

  /// The number of selected elements.
  FLOW_HOST_DEVICE int64_t picked() const { return columns() * count; }
  /// The index of the first selected element of column c.
  FLOW_HOST_DEVICE int64_t picked_start(int64_t c) const {
    return c / inner * count * inner + c % inner;
  }
  /// The index of element i of the column from which the selected element `at` comes.
  FLOW_HOST_DEVICE int64_t source(int64_t at, int64_t i) const {
    return (at / (count * inner) * n + i) * inner + at % inner;
  }
};

}  // namespace flow::ops
