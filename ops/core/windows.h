// Windows that slide over the axes after (N, C, ...): convolutions and pooling.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/spec.h"

namespace flow::ops {

/// The names of the attributes in messages, and the number of axes with windows: 1 (length), 2
/// (height and width) or 3 (depth, height and width).
struct WindowNames {
  std::string_view size = "kernel_size", what = "kernel";
  std::string_view dilation = "dilation_rate";  // if empty, windows have no dilation
  int dimensions = 2;
};

/// The windows along one axis, and the padding of this axis.
struct AxisWindows {
  int64_t size = 1, stride = 1, dilation = 1;
  std::array<int64_t, 2> pads = {};  // before and after the axis
  int64_t count = 1;                 // number of windows

  /// The number of elements that a window spans, including dilation.
  int64_t span() const { return dilation * (size - 1) + 1; }
};
using Windows = std::vector<AxisWindows>;

/// The values of one field for all axes, and the list of the pads before and after each axis.
std::vector<int64_t> each_of(const Windows& windows, int64_t AxisWindows::*number);
std::vector<int64_t> pads_of(const Windows& windows);
/// Turns windows over a length into windows over an image of height 1.
Windows with_height(Windows windows);

/// Returns the integers of an attribute that contains either one integer or one for each dimension.
/// Reports any other count.
std::optional<std::vector<int64_t>> sizes_of(Call& call, std::string_view attribute,
                                             int dimensions = 2);

/// Reads size, stride and dilation of each axis from the attributes. Reports invalid values.
std::optional<Windows> read_windows(Call& call, const WindowNames& names);

/// Returns true unless an extent is too large for windows to be counted, which it reports.
bool fits_windows(Call& call, const std::vector<int64_t>& extents);

/// Sets the pads that the attribute `padding` means for an input of those extents: explicit pads,
/// none for `valid`, or, for `same`, enough for ceil(extent / stride) windows. An odd element of
/// padding goes to the end, or with `same_lower` to the beginning. Reports a wrong number of
/// explicit pads.
bool pad_windows(Call& call, const std::vector<int64_t>& input, Windows& windows);

/// Sets the pads and counts the windows that fit. Reports windows larger than the padded input.
bool place_windows(Call& call, const std::vector<int64_t>& input, const WindowNames& names,
                   Windows& windows);

/// Returns true if operand i has that rank; otherwise reports it.
bool has_rank(Call& call, size_t i, int rank, std::string_view expected);

/// Returns the attribute as a shape of rank 4, (N, C, H, W). Reports any other rank.
std::optional<Shape> four_extents(Call& call, std::string_view attribute);

/// An attribute of gradients: the shape of x.
AttributeSpec input_shape_attribute();
/// Attributes that layers with windows and their primitives share.
AttributeSpec sizes_attribute(std::string_view name, std::string_view fallback,
                              std::string_view doc);
AttributeSpec padding_attribute(int dimensions);

AttributeSpec groups_attribute();

/// Returns true if channels and filters divide evenly into the groups; otherwise reports them.
bool groups_fit(Call& call, int64_t channels, int64_t filters, int64_t groups);

}  // namespace flow::ops
