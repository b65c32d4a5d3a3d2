// The sizes of bags of indices, which are along the last axis of an array.
#pragma once

#include "runtime/base/array.h"

namespace flow {

/// The sizes of params (rows, units), indices (bags, count) and out (bags, units).
struct BagSizes {
  BagSizes(const Shape& params, const Shape& indices)
      : rows(params[0]),
        units(params[1]),
        count(indices[indices.rank() - 1]),
        bags(indices.elements() / count) {}

  int64_t rows, units, count, bags;
};

}  // namespace flow
