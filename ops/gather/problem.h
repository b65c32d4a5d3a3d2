// The sizes that gather, scatter and their gradients work with.
#pragma once

#include "ops/core/attributes.h"
#include "runtime/base/array.h"
#include "runtime/base/host_device.h"

namespace flow {

/// An array [outer, extent, inner], and `count`, the number of indices into its extent.
struct GatherSizes {
  int64_t outer, extent, inner, count;

  /// Returns the sizes along the attribute `axis` of the whole array.
  static GatherSizes of(const ops::Attributes& attributes, const Shape& whole,
                        const Shape& indices) {
    const auto axis = static_cast<int>(attributes.get<int64_t>("axis"));
    return {whole.elements(0, axis), whole[axis], whole.elements(axis + 1, whole.rank()),
            indices.elements()};
  }
  /// Returns the sizes for the rows of dy that a sparse gradient adds up.
  static GatherSizes of_rows(const ops::Attributes& attributes, const Shape& indices,
                             const Shape& dy) {
    const int64_t count = indices.elements();
    return {1, attributes.get<int64_t>("extent"), dy.elements() / count, count};
  }

  FLOW_HOST_DEVICE bool has(int64_t index) const { return 0 <= index && index < extent; }
};

}  // namespace flow
