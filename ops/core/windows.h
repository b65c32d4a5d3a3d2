// Windows that slide over the last two axes of [N, C, H, W]: convolutions and pooling.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/spec.h"

namespace flow::ops {

/// What the sizes are called where messages point at them, and how many dimensions they have there:
/// height and width, or a length, which is the width of an image of height 1.
struct WindowNames {
  std::string_view size = "kernel_size", what = "kernel";
  int dimensions = 2;
};

struct Windows {
  std::array<int64_t, 2> size, strides, dilation;  // height, width
};

/// Elements along `axis` that a window spans, dilation included.
int64_t span_of(const Windows& windows, size_t axis);

struct PlacedWindows {
  std::vector<int64_t> padding;  // top, bottom, left, right
  std::array<int64_t, 2> count;  // of windows: the result's height and width
};

/// `padding` where it is no word, as top, bottom, left, right: from one number, or two for each
/// dimension. Reports any other count.
std::optional<std::vector<int64_t>> pads_of(Call& call, const Attribute& padding,
                                            const WindowNames& names);

/// The pads of a word: as many windows as the strides start in the input. The odd pixel of padding
/// goes to the end, or with `same_lower` to the beginning; `valid` pads nothing.
std::vector<int64_t> pads_of_word(const std::string& word, std::array<int64_t, 2> input,
                                  const Windows& windows);

/// Reports extents so large that windows cannot be counted.
bool fits_windows(Call& call, std::array<int64_t, 2> input);

/// The pads that `padding` means for an input of that height and width, and how many windows fit.
/// Reports windows larger than the padded input.
std::optional<PlacedWindows> place_windows(Call& call, std::array<int64_t, 2> input,
                                           const Windows& windows, const Attribute& padding,
                                           const WindowNames& names);

/// An attribute of one integer, or one for each dimension, as height and width. A length has the
/// height 1. Reports any other count.
std::optional<std::array<int64_t, 2>> pair_of(Call& call, std::string_view attribute,
                                              const std::vector<int64_t>& sizes,
                                              int dimensions = 2);

/// An attribute of one integer, or one for depth, height and width. Reports any other count.
std::optional<std::array<int64_t, 3>> triple_of(Call& call, std::string_view attribute);

/// Windows along one axis, and what pads it.
struct AxisWindows {
  int64_t size = 1, stride = 1, dilation = 1;
  std::array<int64_t, 2> pads = {};
  int64_t count = 1;  // of windows
};

using VolumeWindows = std::array<AxisWindows, 3>;  // depth, height, width

/// The windows over a volume (N, C, D, H, W) that the attributes describe; `names.size`, `strides`
/// and `dilation`, which may be empty, name them. Reports what is wrong with them.
std::optional<VolumeWindows> volume_windows(Call& call, const Shape& x, std::string_view strides,
                                            std::string_view dilation, const WindowNames& names);

/// Reports operand i if it is not of that rank.
bool has_rank(Call& call, size_t i, int rank, std::string_view expected);

/// The attribute as a shape of rank 4, [N, C, H, W]. Reports any other rank.
std::optional<Shape> four_extents(Call& call, std::string_view attribute);

/// Of gradients: the shape that x had.
AttributeSpec input_shape_attribute();
/// Attributes that layers with windows and their primitives have alike.
AttributeSpec sizes_attribute(std::string_view name, std::string_view fallback,
                              std::string_view doc);
AttributeSpec padding_attribute(int dimensions);

AttributeSpec groups_attribute();

/// Reports channels or filters that do not fall into the groups evenly.
bool groups_fit(Call& call, int64_t channels, int64_t filters, int64_t groups);

}  // namespace flow::ops
