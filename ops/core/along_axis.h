// A tensor as kernels see it that work along one of its axes.
#pragma once

#include <cstdint>

#include "ops/core/attributes.h"
#include "runtime/base/host_device.h"

namespace flow::ops {

/// (outer, n, inner): what lies before the axis, along it and behind it. A column is the n elements
/// along the axis, `inner` apart.
struct AlongAxis {
  int64_t outer, n, inner;

  AlongAxis(const Shape& shape, int axis)
      : outer(shape.elements(0, axis)),
        n(shape[axis]),
        inner(shape.elements(axis + 1, shape.rank())) {}
  /// Along the attribute `axis`.
  AlongAxis(const Shape& shape, const Attributes& attributes)
      : AlongAxis(shape, static_cast<int>(attributes.get<int64_t>("axis"))) {}

  FLOW_HOST_DEVICE int64_t columns() const { return outer * inner; }
  /// Where column c begins.
  FLOW_HOST_DEVICE int64_t start(int64_t c) const { return c / inner * n * inner + c % inner; }
  /// Element i of that column among all: `outermost` is c / inner, `innermost` is c % inner.
  FLOW_HOST_DEVICE int64_t at(int64_t outermost, int64_t i, int64_t innermost) const {
    return (outermost * n + i) * inner + innermost;
  }
};

/// The same, beside what is picked along the axis: (outer, count, inner).
struct PickedAlongAxis : AlongAxis {
  int64_t count;

  PickedAlongAxis(const Shape& shape, const Shape& picked, const Attributes& attributes)
      : AlongAxis(shape, attributes), count(picked.elements() / columns()) {}

  /// How many are picked.
  FLOW_HOST_DEVICE int64_t picked() const { return columns() * count; }
  /// Where those of column c begin.
  FLOW_HOST_DEVICE int64_t picked_start(int64_t c) const {
    return c / inner * count * inner + c % inner;
  }
  /// Element i of the column that picked element `at` is of.
  FLOW_HOST_DEVICE int64_t source(int64_t at, int64_t i) const {
    return (at / (count * inner) * n + i) * inner + at % inner;
  }
};

}  // namespace flow::ops
