// Windows that slide over the axes after (N, C, ...): convolutions and pooling.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/spec.h"

namespace flow::ops {

/// What the attributes are called where messages point at them, and how many axes have windows: a
/// length, height and width, or depth, height and width.
struct WindowNames {
  std::string_view size = "kernel_size", what = "kernel";
  std::string_view dilation = "dilation_rate";  // empty: windows are dense
  int dimensions = 2;
};

/// Windows along one axis, and what pads it.
struct AxisWindows {
  int64_t size = 1, stride = 1, dilation = 1;
  std::array<int64_t, 2> pads = {};  // before the axis, and behind it
  int64_t count = 1;                 // of windows

  /// Elements that a window spans, dilation included.
  int64_t span() const { return dilation * (size - 1) + 1; }
};
using Windows = std::vector<AxisWindows>;

/// One of the numbers, of each axis; and the pads before and behind each axis, in one list.
std::vector<int64_t> each_of(const Windows& windows, int64_t AxisWindows::*number);
std::vector<int64_t> pads_of(const Windows& windows);
/// Windows over a length as those over an image of height 1.
Windows with_height(Windows windows);

/// An attribute of one integer, or one for each dimension. Reports any other count.
std::optional<std::vector<int64_t>> sizes_of(Call& call, std::string_view attribute,
                                             int dimensions = 2);

/// Size, stride and dilation of each axis, as the attributes say. Reports what is wrong with them.
std::optional<Windows> read_windows(Call& call, const WindowNames& names);

/// Reports extents so large that windows cannot be counted.
bool fits_windows(Call& call, const std::vector<int64_t>& extents);

/// Sets the pads that the attribute `padding` means for an input of those extents: explicit ones,
/// or those for as many windows as the strides start in the input. The odd pixel of padding goes to
/// the end, or with `same_lower` to the beginning; `valid` pads nothing. Reports another count.
bool pad_windows(Call& call, const std::vector<int64_t>& input, Windows& windows);

/// The same, and counts how many windows fit. Reports windows larger than the padded input.
bool place_windows(Call& call, const std::vector<int64_t>& input, const WindowNames& names,
                   Windows& windows);

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
