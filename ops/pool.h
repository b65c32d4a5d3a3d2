// The windows of pools, over images and over lengths.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/windows.h"

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

}  // namespace flow::ops
