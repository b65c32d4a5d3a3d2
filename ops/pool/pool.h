// The windows of pools, over images and over lengths.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/spec.h"
#include "ops/core/windows.h"

namespace flow::ops {

/// The windows over `x`, (N, C, ...), that the attributes describe. Reports what is wrong with
/// them.
std::optional<Windows> read_pool(Call& call, const Shape& x);
/// Windows over images as attributes of the primitives.
void set_pool(Attributes& attributes, const Windows& windows);

/// A pool, or the gradient of one, over images of shape `x`, that makes `y`.
struct PooledImages {
  Shape x, y;
  Windows windows;
};

/// What an operand [N, C, H, W] is pooled to; reports what is wrong with it or the attributes.
std::optional<PooledImages> read_pool2d(Call& call);
/// The same of a gradient, whose attribute `input_shape` is the shape of x.
std::optional<PooledImages> read_pool2d_grad(Call& call);

std::vector<AttributeSpec> pool_attributes(int dimensions = 2);
/// Those of a pool over images, and `input_shape`.
std::vector<AttributeSpec> pool_gradient_attributes();

}  // namespace flow::ops
