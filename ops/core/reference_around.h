// An array seen from one of its axes.
#pragma once

#include <cstdint>

#include "runtime/base/shape.h"

namespace flow::cpu::reference {

/// [outer, extent, inner] in C order, around an axis.
struct Around {
  Around(const Shape& shape, int axis)
      : outer(shape.elements(0, axis)),
        extent(shape[axis]),
        inner(shape.elements(axis + 1, shape.rank())) {}
  int64_t outer, extent, inner;
};

}  // namespace flow::cpu::reference
