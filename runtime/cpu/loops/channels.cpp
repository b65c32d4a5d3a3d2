// Views along an axis, and how their elements are cut up.
#include "runtime/cpu/loops/channels.h"

#include <algorithm>

#include "runtime/base/ceil_div.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

ChannelView view_along(const TensorDesc& desc, int axis) {
  const std::vector<int> order = memory_order(desc);
  const auto place = std::ranges::find(order, axis) - order.begin();
  ChannelView view;
  view.channels = desc.shape[axis];
  for (std::ptrdiff_t i = 0; i < std::ssize(order); ++i) {
    const int64_t extent = desc.shape[order[static_cast<size_t>(i)]];
    if (i < place) view.outer *= extent;
    if (i > place) view.inner *= extent;
  }
  return view;
}

ChannelPieces::ChannelPieces(const ChannelView& of) : view(of) {
  // A piece is read twice by some, so it should stay in the cache; the sums of a piece must be few
  // beside its elements.
  constexpr int64_t kLeastRows = 64, kMostRows = 1024;
  if (view.inner == 1) {
    block = std::min(view.channels, kMostInnermost);
    rows = std::clamp(kPiece / block, kLeastRows, kMostRows);
  } else {
    block = std::clamp<int64_t>(kPiece / view.inner, 1, view.channels);
    rows = std::max<int64_t>(1, kPiece / (block * view.inner));
  }
  blocks = ceil_div(view.channels, block);
  chunks = ceil_div(view.outer, rows);
}

int64_t ChannelPieces::count_of(int64_t chunk) const {
  return std::min(rows, view.outer - chunk * rows) * view.inner;
}

ChannelPiece::ChannelPiece(const ChannelPieces& all, int64_t i)
    : chunk(i / all.blocks),
      channel(i % all.blocks * all.block),
      rows(std::min(all.rows, all.view.outer - chunk * all.rows)),
      channels(std::min(all.block, all.view.channels - channel)),
      inner(all.view.inner),
      row_stride(all.view.channels * inner),
      offset(chunk * all.rows * row_stride + channel * inner) {}

}  // namespace flow::cpu
