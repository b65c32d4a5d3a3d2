// Windows that slide over the last two axes of [N, C, H, W]: convolutions and pooling.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ops/op_def.h"

namespace flow {

/// What the sizes are called where messages point at them.
struct WindowNames {
  std::string_view size = "kernel_size", padding = "padding", what = "kernel";
};

struct Windows {
  std::array<int64_t, 2> size, strides, dilation;  // height, width
};

struct PlacedWindows {
  std::vector<int64_t> padding;  // top, bottom, left, right
  std::array<int64_t, 2> count;  // of windows: the result's height and width
};

/// The pads that `padding` (a word, or four pads) means for an input of that height and width,
/// and how many windows fit. Reports windows larger than the padded input.
std::optional<PlacedWindows> place_windows(CallSite& site, std::array<int64_t, 2> input,
                                           const Windows& windows, const ir::Attribute& padding,
                                           const WindowNames& names);

/// One or two integers as height and width; reports any other count.
std::optional<std::array<int64_t, 2>> pair_of(CallSite& site, std::string_view attribute,
                                              const std::vector<int64_t>& sizes);

/// Reports operand i if it is not of that rank.
bool has_rank(CallSite& site, size_t i, int rank, std::string_view expected);

/// Sizes up to this one keep all arithmetic on windows far from overflow.
inline constexpr double kMaxWindow = 2147483647;

}  // namespace flow
