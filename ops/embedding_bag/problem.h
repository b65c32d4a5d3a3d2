// Bags of indices along the last axis of an array.
#pragma once

#include "runtime/base/array.h"

namespace flow {

/// params [rows, units], indices [bags, count], out [bags, units].
struct BagSizes {
  BagSizes(const Shape& params, const Shape& indices)
      : rows(params[0]),
        units(params[1]),
        count(indices[indices.rank() - 1]),
        bags(indices.elements() / count) {}

  int64_t rows, units, count, bags;
};

}  // namespace flow
