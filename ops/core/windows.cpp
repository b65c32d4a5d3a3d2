// Windows that slide over the axes after (N, C, ...): convolutions and pooling.
#include "ops/core/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/host_device.h"
#include "runtime/base/text.h"

namespace flow::ops {
namespace {

std::array<int64_t, 2> same_pads(int64_t input, const AxisWindows& along, bool lower) {
  const int64_t count = ceil_div(input, along.stride);
  const int64_t total = std::max<int64_t>((count - 1) * along.stride + along.span() - input, 0);
  const int64_t less = total / 2;
  return lower ? std::array{total - less, less} : std::array{less, total - less};
}

void report_padding(Call& call, size_t given, size_t wanted) {
  constexpr std::string_view kCounts[] = {"no", "one", "two", "three"};
  call.bad_attribute("padding", Reason::kBadAttribute,
                     fmt::format("`padding` has {} {}; expected {}", kCounts[given],
                                 given == 1 ? "dimension" : "dimensions", kCounts[wanted]));
}

/// Returns true if the shape looks like (N, H, W, C) with gray, color or color-and-alpha channels.
bool looks_channels_last(const Shape& x) {
  return x.rank() == 4 && (x[3] == 1 || x[3] == 3 || x[3] == 4) && x[1] > 4 && x[2] > 4;
}

/// Reports a window that does not fit. `extent` is an adjective such as "high".
void report_misfit(Call& call, const AxisWindows& along, int64_t padded, std::string_view extent,
                   const WindowNames& names) {
  const std::string spans = along.dilation == 1 ? std::string()
                                                : fmt::format(" (with dilation {} it spans {})",
                                                              along.dilation, along.span());
  const int64_t fits = (padded - 1) / along.dilation + 1;
  call.bad_attribute(names.size, Reason::kWindow,
                     fmt::format("{} {} does not fit{}: the padded input is {} {}", names.what,
                                 along.size, spans, padded, extent))
      .with_hint(
          looks_channels_last(call.shape(0))
              ? "images are (N, C, H, W); convert (N, H, W, C) with `{op: transpose, perm: [0, 3, "
                "1, 2]}`"
              : fmt::format("reduce `{}` to at most {}, or write `padding: same`", names.size,
                            fits));
}

}  // namespace

std::vector<int64_t> each_of(const Windows& windows, int64_t AxisWindows::*number) {
  std::vector<int64_t> numbers;
  for (const AxisWindows& along : windows) numbers.push_back(along.*number);
  return numbers;
}

std::vector<int64_t> pads_of(const Windows& windows) {
  std::vector<int64_t> pads;
  for (const AxisWindows& along : windows)
    pads.insert(pads.end(), along.pads.begin(), along.pads.end());
  return pads;
}

Windows with_height(Windows windows) {
  if (windows.size() == 1) windows.insert(windows.begin(), AxisWindows());
  return windows;
}

std::optional<std::vector<int64_t>> sizes_of(Call& call, std::string_view attribute,
                                             int dimensions) {
  constexpr std::string_view kOthers[] = {"", ", or two for height and width",
                                          ", or three for depth, height and width"};
  const auto axes = static_cast<size_t>(dimensions);
  std::vector<int64_t> sizes = call.integers(attribute);
  if (sizes.size() == 1) sizes.resize(axes, sizes[0]);
  if (sizes.size() == axes) return sizes;
  call.bad_attribute(attribute, Reason::kBadAttribute,
                     fmt::format("`{}` has {} numbers; expected one{}", attribute, sizes.size(),
                                 kOthers[axes - 1]));
  return {};
}

std::optional<Windows> read_windows(Call& call, const WindowNames& names) {
  const auto size = sizes_of(call, names.size, names.dimensions);
  if (!size && names.dilation.empty()) return {};  // strides may take their default from the size
  const auto strides = sizes_of(call, "strides", names.dimensions);
  const auto dilation = names.dilation.empty()
                            ? std::vector<int64_t>(static_cast<size_t>(names.dimensions), 1)
                            : sizes_of(call, names.dilation, names.dimensions);
  if (!size || !strides || !dilation) return {};
  Windows windows;
  for (size_t axis = 0; axis < size->size(); ++axis)
    windows.push_back({(*size)[axis], (*strides)[axis], (*dilation)[axis]});
  return windows;
}

bool fits_windows(Call& call, const std::vector<int64_t>& extents) {
  if (std::ranges::max(extents) <= kMaxSize) return true;
  call.bad_operand(0, Reason::kTensorTooLarge,
                   fmt::format("{} is too large; windows support at most {} elements per axis",
                               call.shape(0).str(), kMaxSize));
  return false;
}

bool pad_windows(Call& call, const std::vector<int64_t>& input, Windows& windows) {
  const Attribute& padding = call.attribute("padding");
  if (const auto* word = std::get_if<std::string>(&padding)) {
    for (size_t axis = 0; axis < windows.size() && *word != "valid"; ++axis)
      windows[axis].pads = same_pads(input[axis], windows[axis], *word == "same_lower");
    return true;
  }
  std::vector<int64_t> pads = std::get<std::vector<int64_t>>(padding);
  if (pads.size() == 1) pads.resize(2 * windows.size(), pads[0]);
  if (pads.size() != 2 * windows.size()) {
    report_padding(call, pads.size() / 2, windows.size());
    return false;
  }
  for (size_t axis = 0; axis < windows.size(); ++axis)
    windows[axis].pads = {pads[2 * axis], pads[2 * axis + 1]};
  return true;
}

bool place_windows(Call& call, const std::vector<int64_t>& input, const WindowNames& names,
                   Windows& windows) {
  constexpr std::string_view kExtents[] = {"deep", "high", "wide"};
  if (!fits_windows(call, input) || !fits_windows(call, each_of(windows, &AxisWindows::size)) ||
      !pad_windows(call, input, windows))
    return false;
  for (size_t axis = 0; axis < windows.size(); ++axis) {
    AxisWindows& along = windows[axis];
    const int64_t padded = input[axis] + along.pads[0] + along.pads[1];
    if (along.span() > padded) {
      report_misfit(call, along, padded,
                    windows.size() == 1 ? "long" : kExtents[axis + 3 - windows.size()], names);
      return false;
    }
    along.count = (padded - along.span()) / along.stride + 1;
  }
  return true;
}

bool has_rank(Call& call, size_t i, int rank, std::string_view expected) {
  if (call.shape(i).rank() == rank) return true;
  call.bad_operand(i, Reason::kRankMismatch,
                   fmt::format("{} has {}; expected {}: {}", call.shape(i).str(),
                               counted(static_cast<uint64_t>(call.shape(i).rank()), "dimension"),
                               rank, expected));
  return false;
}

std::optional<Shape> four_extents(Call& call, std::string_view attribute) {
  const Shape shape(call.attribute<std::vector<int64_t>>(attribute));
  if (shape.rank() == 4) return shape;
  call.bad_attribute(attribute, Reason::kBadAttribute,
                     fmt::format("`{}` has {} sizes; expected 4", attribute, shape.rank()));
  return {};
}

AttributeSpec input_shape_attribute() {
  return {.name = "input_shape",
          .type = AttributeType::kIntegers,
          .fallback = "",
          .doc = "shape of x",
          .min = 1};
}

AttributeSpec sizes_attribute(std::string_view name, std::string_view fallback,
                              std::string_view doc) {
  return {.name = name,
          .type = AttributeType::kIntegers,
          .fallback = fallback,
          .doc = doc,
          .min = 1,
          .max = static_cast<double>(kMaxSize)};
}

AttributeSpec groups_attribute() {
  AttributeSpec def = sizes_attribute(
      "groups", "1", "number of channel groups; each group convolves only its own input channels");
  def.type = AttributeType::kInteger;
  return def;
}

bool groups_fit(Call& call, int64_t channels, int64_t filters, int64_t groups) {
  for (const auto& [what, count] : {std::pair{"channels", channels}, {"filters", filters}}) {
    if (count % groups == 0) continue;
    call.bad_attribute(
        "groups", Reason::kBadAttribute,
        fmt::format("{} {} cannot be split evenly into {} groups", count, what, groups));
    return false;
  }
  return true;
}

AttributeSpec padding_attribute(int dimensions) {
  return {"padding", AttributeType::kPadding, "valid",
          dimensions == 3
              ? "valid, same (or same_upper), same_lower, or explicit: 1, [1, 1, 1], [[front, "
                "back], [top, bottom], [left, right]]. same puts an odd element at the end, "
                "same_lower at the start"
          : dimensions == 1
              ? "valid, same (or same_upper), same_lower, or explicit: 1, [[left, right]]. same "
                "puts an odd element at the end, same_lower at the start"
              : "valid, same (or same_upper), same_lower, or explicit: 1, [1, 1], [[top, bottom], "
                "[left, right]]. same puts an odd row or column at the bottom or right, same_lower "
                "at the top or left"};
}

}  // namespace flow::ops
