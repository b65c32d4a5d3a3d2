// Windows that slide over the last two axes of [N, C, H, W]: convolutions and pooling.
#include "compiler/ops/windows.h"

#include <fmt/format.h>

#include <algorithm>

namespace flow {
namespace {

constexpr std::string_view kExtent[] = {"high", "wide"};

/// Rows that a window spans.
int64_t span_of(const Windows& windows, size_t axis) {
  return windows.dilation[axis] * (windows.size[axis] - 1) + 1;
}

/// `same`: as many windows as the strides start in the input; the odd pixel of padding goes to the
/// end, or with `same_lower` to the beginning.
std::array<int64_t, 2> same_pads(int64_t input, int64_t span, int64_t stride, bool lower) {
  const int64_t count = (input + stride - 1) / stride;
  const int64_t total = std::max<int64_t>((count - 1) * stride + span - input, 0);
  const int64_t less = total / 2;
  return lower ? std::array{total - less, less} : std::array{less, total - less};
}

void report_misfit(CallSite& site, const Windows& windows, size_t axis, int64_t padded,
                   const WindowNames& names) {
  const int64_t span = span_of(windows, axis);
  const std::string spans =
      windows.dilation[axis] == 1
          ? std::string()
          : fmt::format(" (with dilation {} it spans {})", windows.dilation[axis], span);
  const int64_t fits = (padded - 1) / windows.dilation[axis] + 1;
  site.bad_attribute(names.size, Diagnosis::kWindow,
                     fmt::format("{} {} does not fit{}: padded input is {} {}", names.what,
                                 windows.size[axis], spans, padded, kExtent[axis]))
      .with_hint(fmt::format("{} at most {}, or padding: same", names.size, fits));
}

}  // namespace

std::optional<PlacedWindows> place_windows(CallSite& site, std::array<int64_t, 2> input,
                                           const Windows& windows, const ir::Attribute& padding,
                                           const WindowNames& names) {
  PlacedWindows placed{std::vector<int64_t>(4, 0), {}};
  if (const auto* pads = std::get_if<std::vector<int64_t>>(&padding)) {
    const auto fits = [](int64_t pad) {
      return pad >= 0 && static_cast<double>(pad) <= kMaxWindow;
    };
    if (pads->size() != 4 || !std::ranges::all_of(*pads, fits)) {
      site.bad_attribute(names.padding, Diagnosis::kBadAttribute,
                         "`padding` is four sizes: top, bottom, left, right");
      return {};
    }
    placed.padding = *pads;
  }
  const auto* word = std::get_if<std::string>(&padding);
  for (size_t axis = 0; axis < 2; ++axis) {
    int64_t* const pads = &placed.padding[2 * axis];
    const int64_t span = span_of(windows, axis);
    if (word && *word != "valid") {
      const auto same = same_pads(input[axis], span, windows.strides[axis], *word == "same_lower");
      std::copy(same.begin(), same.end(), pads);
    }
    const int64_t padded = input[axis] + pads[0] + pads[1];
    if (span > padded) {
      report_misfit(site, windows, axis, padded, names);
      return {};
    }
    placed.count[axis] = (padded - span) / windows.strides[axis] + 1;
  }
  return placed;
}

std::optional<std::array<int64_t, 2>> pair_of(CallSite& site, std::string_view attribute,
                                              const std::vector<int64_t>& sizes) {
  if (sizes.size() == 1) return std::array{sizes[0], sizes[0]};
  if (sizes.size() == 2) return std::array{sizes[0], sizes[1]};
  site.bad_attribute(
      attribute, Diagnosis::kBadAttribute,
      fmt::format("`{}` has {} numbers, it must have one, or two for height and width", attribute,
                  sizes.size()));
  return {};
}

bool has_rank(CallSite& site, size_t i, int rank, std::string_view expected) {
  if (site.shape(i).rank() == rank) return true;
  site.bad_operand(
      i, Diagnosis::kRankMismatch,
      fmt::format("{} has {} dimension{}, it must have {}: {}", site.shape(i).str(),
                  site.shape(i).rank(), site.shape(i).rank() == 1 ? "" : "s", rank, expected));
  return false;
}

}  // namespace flow
