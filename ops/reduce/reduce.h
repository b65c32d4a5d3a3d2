// The shapes of reductions.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/array.h"

namespace flow::ops {

/// Returns the extents that remain after these axes are reduced. With `keepdims`, reduced axes keep
/// an extent of 1.
Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& axes, bool keepdims);

}  // namespace flow::ops
