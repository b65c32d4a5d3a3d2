// Windows that slide over the last two axes of [N, C, H, W]: convolutions and pooling.
#include "ops/core/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/host_device.h"
#include "runtime/base/text.h"

namespace flow::ops {
namespace {

std::array<int64_t, 2> same_pads(int64_t input, int64_t span, int64_t stride, bool lower) {
  const int64_t count = ceil_div(input, stride);
  const int64_t total = std::max<int64_t>((count - 1) * stride + span - input, 0);
  const int64_t less = total / 2;
  return lower ? std::array{total - less, less} : std::array{less, total - less};
}

void report_padding(Call& call, size_t given, int wanted) {
  constexpr std::string_view kCounts[] = {"no", "one", "two", "three"};
  call.bad_attribute("padding", Reason::kBadAttribute,
                     fmt::format("`padding` has {} {}; expected {}", kCounts[given],
                                 given == 1 ? "dimension" : "dimensions", kCounts[wanted]));
}

/// [N, H, W, C] of gray, color or with transparency.
bool looks_channels_last(const Shape& x) {
  return x.rank() == 4 && (x[3] == 1 || x[3] == 3 || x[3] == 4) && x[1] > 4 && x[2] > 4;
}

/// `extent`: "high"
void report_misfit(Call& call, int64_t size, int64_t dilation, int64_t padded,
                   std::string_view extent, const WindowNames& names) {
  const std::string spans = dilation == 1 ? std::string()
                                          : fmt::format(" (with dilation {} it spans {})", dilation,
                                                        dilation * (size - 1) + 1);
  const int64_t fits = (padded - 1) / dilation + 1;
  call.bad_attribute(names.size, Reason::kWindow,
                     fmt::format("{} {} does not fit{}: the padded input is {} {}", names.what,
                                 size, spans, padded, extent))
      .with_hint(
          looks_channels_last(call.shape(0))
              ? "images are (N, C, H, W); convert (N, H, W, C) with `{op: transpose, perm: [0, 3, "
                "1, 2]}`"
              : fmt::format("reduce `{}` to at most {}, or write `padding: same`", names.size,
                            fits));
}

}  // namespace

int64_t span_of(const Windows& windows, size_t axis) {
  return windows.dilation[axis] * (windows.size[axis] - 1) + 1;
}

std::optional<std::vector<int64_t>> pads_of(Call& call, const Attribute& padding,
                                            const WindowNames& names) {
  std::vector<int64_t> pads = std::get<std::vector<int64_t>>(padding);
  const size_t wanted = names.dimensions == 1 ? 2 : 4;
  if (pads.size() == 1) pads = std::vector<int64_t>(wanted, pads[0]);
  if (pads.size() != wanted) {
    report_padding(call, pads.size() / 2, names.dimensions);
    return {};
  }
  return names.dimensions == 2 ? pads : std::vector<int64_t>{0, 0, pads[0], pads[1]};
}

std::vector<int64_t> pads_of_word(const std::string& word, std::array<int64_t, 2> input,
                                  const Windows& windows) {
  std::vector<int64_t> pads(4, 0);
  if (word == "valid") return pads;
  for (size_t axis = 0; axis < 2; ++axis) {
    const auto same =
        same_pads(input[axis], span_of(windows, axis), windows.strides[axis], word == "same_lower");
    std::ranges::copy(same, pads.begin() + static_cast<std::ptrdiff_t>(2 * axis));
  }
  return pads;
}

bool fits_windows(Call& call, std::array<int64_t, 2> input) {
  if (std::max(input[0], input[1]) <= kMaxSize) return true;
  call.bad_operand(0, Reason::kTensorTooLarge,
                   fmt::format("{} is too large; windows support at most {} elements per axis",
                               call.shape(0).str(), kMaxSize));
  return false;
}

std::optional<PlacedWindows> place_windows(Call& call, std::array<int64_t, 2> input,
                                           const Windows& windows, const Attribute& padding,
                                           const WindowNames& names) {
  if (!fits_windows(call, input) || !fits_windows(call, windows.size)) return {};
  const auto* word = std::get_if<std::string>(&padding);
  const auto pads = word ? pads_of_word(*word, input, windows) : pads_of(call, padding, names);
  if (!pads) return {};
  PlacedWindows placed{*pads, {}};
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t span = span_of(windows, axis);
    const int64_t padded = input[axis] + (*pads)[2 * axis] + (*pads)[2 * axis + 1];
    if (span > padded) {
      report_misfit(call, windows.size[axis], windows.dilation[axis], padded,
                    names.dimensions == 1 ? "long"
                    : axis == 0           ? "high"
                                          : "wide",
                    names);
      return {};
    }
    placed.count[axis] = (padded - span) / windows.strides[axis] + 1;
  }
  return placed;
}

std::optional<std::array<int64_t, 2>> pair_of(Call& call, std::string_view attribute,
                                              const std::vector<int64_t>& sizes, int dimensions) {
  if (dimensions == 1 && sizes.size() == 1) return std::array{int64_t{1}, sizes[0]};
  if (dimensions == 2 && sizes.size() == 1) return std::array{sizes[0], sizes[0]};
  if (dimensions == 2 && sizes.size() == 2) return std::array{sizes[0], sizes[1]};
  call.bad_attribute(attribute, Reason::kBadAttribute,
                     fmt::format("`{}` has {} numbers; expected one{}", attribute, sizes.size(),
                                 dimensions == 2 ? ", or two for height and width" : ""));
  return {};
}

std::optional<std::array<int64_t, 3>> triple_of(Call& call, std::string_view attribute) {
  const std::vector<int64_t>& sizes = call.integers(attribute);
  if (sizes.size() == 1) return std::array{sizes[0], sizes[0], sizes[0]};
  if (sizes.size() == 3) return std::array{sizes[0], sizes[1], sizes[2]};
  call.bad_attribute(attribute, Reason::kBadAttribute,
                     fmt::format("`{}` has {} numbers; expected one, or three for depth, height "
                                 "and width",
                                 attribute, sizes.size()));
  return {};
}

namespace {

/// The pads of one axis; nothing where the attribute is of other dimensions, which is reported.
std::optional<std::array<int64_t, 2>> pads_of_volume(Call& call, size_t axis, int64_t input,
                                                     const AxisWindows& of) {
  const Attribute& padding = call.attribute("padding");
  if (const auto* word = std::get_if<std::string>(&padding)) {
    const Windows windows{{of.size, 1}, {of.stride, 1}, {of.dilation, 1}};
    const std::vector<int64_t> pads = pads_of_word(*word, {input, 1}, windows);
    return std::array{pads[0], pads[1]};
  }
  const auto& pads = std::get<std::vector<int64_t>>(padding);
  if (pads.size() == 1) return std::array{pads[0], pads[0]};
  if (pads.size() == 6) return std::array{pads[2 * axis], pads[2 * axis + 1]};
  report_padding(call, pads.size() / 2, 3);
  return {};
}

}  // namespace

std::optional<VolumeWindows> volume_windows(Call& call, const Shape& x, std::string_view strides,
                                            std::string_view dilation, const WindowNames& names) {
  constexpr std::string_view kExtents[] = {"deep", "high", "wide"};
  const auto size = triple_of(call, names.size);
  if (!size) return {};  // strides may have their default from it
  const auto stride = triple_of(call, strides);
  const auto holes =
      dilation.empty() ? std::optional(std::array<int64_t, 3>{1, 1, 1}) : triple_of(call, dilation);
  if (!stride || !holes) return {};
  VolumeWindows windows;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t input = x[static_cast<int>(axis) + 2];
    AxisWindows& along = windows[axis];
    along = {(*size)[axis], (*stride)[axis], (*holes)[axis]};
    if (!fits_windows(call, {input, along.size})) return {};
    const auto pads = pads_of_volume(call, axis, input, along);
    if (!pads) return {};
    along.pads = *pads;
    const int64_t span = along.dilation * (along.size - 1) + 1;
    const int64_t padded = input + along.pads[0] + along.pads[1];
    if (span > padded) {
      report_misfit(call, along.size, along.dilation, padded, kExtents[axis], names);
      return {};
    }
    along.count = (padded - span) / along.stride + 1;
  }
  return windows;
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
