// The windows of pools over images and over sequences.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/spec.h"
#include "ops/core/windows.h"

namespace flow::ops {

/// Returns the windows over `x`, (N, C, ...), that the attributes describe; reports attributes that
/// are wrong.
std::optional<Windows> read_pool(Call& call, const Shape& x);
/// Writes windows over images to attributes of the primitives.
void set_pool(Attributes& attributes, const Windows& windows);

/// A pool over images of shape `x` that computes `y`, or the gradient of this pool.
struct PooledImages {
  Shape x, y;
  Windows windows;
};

/// Returns the pool over an operand [N, C, H, W]; reports what is wrong with the operand or the
/// attributes.
std::optional<PooledImages> read_pool2d(Call& call);
/// Does the same for a gradient, whose attribute `input_shape` is the shape of x.
std::optional<PooledImages> read_pool2d_grad(Call& call);

std::vector<AttributeSpec> pool_attributes(int dimensions = 2);
/// Returns the attributes of a pool over images, and `input_shape`.
std::vector<AttributeSpec> pool_gradient_attributes();

}  // namespace flow::ops
