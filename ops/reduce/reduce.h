// Shapes of reductions.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/array.h"

namespace flow::ops {

/// The extents that are left without those axes; reduced ones stay as 1 with `keepdims`.
Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& axes, bool keepdims);

}  // namespace flow::ops
