// The windows of pools, over images and over lengths.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/spec.h"
#include "ops/core/windows.h"

namespace flow::ops {

struct Pool {
  Windows windows;
  PlacedWindows placed;
  // As attributes of the primitive; its padding is that of `placed`.
  std::vector<int64_t> size() const { return {windows.size[0], windows.size[1]}; }
  std::vector<int64_t> strides() const { return {windows.strides[0], windows.strides[1]}; }
};

/// The pool that the attributes describe, in one or two dimensions, over an input of that
/// height and width. Reports what is wrong with it.
std::optional<Pool> read_pool(Call& call, std::array<int64_t, 2> input, int dimensions);

/// A pool, or the gradient of one, over images of shape `x`, that makes `y`.
struct PooledImages {
  Shape x, y;
  Pool pool;
};

/// What an operand [N, C, H, W] is pooled to; reports what is wrong with it or the attributes.
std::optional<PooledImages> read_pool2d(Call& call);
/// The same of a gradient, whose attribute `input_shape` is the shape of x.
std::optional<PooledImages> read_pool2d_grad(Call& call);

void normalize_pool(Call& call, Attributes& attributes);
void normalize_pool_grad(Call& call, Attributes& attributes);

/// The pool over a volume (N, C, D, H, W) that the attributes describe. Reports what is wrong with
/// it.
std::optional<VolumeWindows> read_pool3d(Call& call);

std::vector<AttributeSpec> pool_attributes(int dimensions = 2);
/// Those of a pool over images, and `input_shape`.
std::vector<AttributeSpec> pool_gradient_attributes();

}  // namespace flow::ops
