// Views along an axis and the pieces of their elements. Also the channels of all ranks, which are
// exchanged and then joined in the order of ranks.
#include "runtime/cpu/loops/channels.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/base/text.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/exec/core/collectives.h"

namespace flow::cpu {
namespace {

bool is_synchronized(const Request& request) {
  const ops::Attribute* given = request.step.attributes.find("synchronized");
  return given && std::get<bool>(*given) && request.shards > 1;
}

void require_shard_of_rank(const Request& request) {
  const int ranks = request.ranks ? request.ranks->size() : 1;
  if (ranks == request.shards) return;
  throw RunError(fmt::format("synchronized over {} shards on {}, expected one shard a rank",
                             request.shards, counted(static_cast<uint64_t>(ranks), "rank")));
}

}  // namespace

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
  // Some kernels read a piece twice, so it should stay in the cache. The sums of a piece must be
  // few compared to its elements.
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

RankChannels::RankChannels(const Request& request, int64_t channels, size_t used)
    : channels_(channels), threads_(request.threads), workspace_(used) {
  if (!is_synchronized(request)) return;
  require_shard_of_rank(request);
  ranks_ = request.ranks;
  const auto size = static_cast<size_t>(ranks_->size());
  if (bytes_of_rank() > exec::Collectives::kMostBytes / size)
    throw RunError(fmt::format("{} channels are too many for {} ranks to exchange", channels, size),
                   "write `synchronized: false`");
  for (size_t rank = 0; rank < size; ++rank) starts_.push_back(rank * bytes_of_rank());
  bytes_.assign(size, bytes_of_rank());
  send_starts_.assign(size, 0);
  start_ = round_up(used, alignof(Pair));
  workspace_ = start_ + (1 + size) * bytes_of_rank();
}

/// The data is exchanged rather than gathered, because ranks gather the results of sums whenever
/// these are ready, independently of each other.
void RankChannels::exchange(std::byte* workspace) const {
  std::byte* const sent = workspace + start_;
  exec::wait(*ranks_, ranks_->exchange({sent, send_starts_, bytes_},
                                       {sent + bytes_of_rank(), starts_, bytes_}));
}

/// Returns the mean, and the variance as the sum of the variance within shards and the variance of
/// their means.
RankChannels::Pair RankChannels::joined_moments(std::byte* workspace, int64_t c) const {
  const auto size = static_cast<double>(count());
  const auto [sum, within] = added(workspace, c);
  const double mean = sum / size;
  double between = 0;
  for (int64_t rank = 0; rank < count(); ++rank) {
    const double off = received(workspace, rank, c)[0] - mean;
    between += off * off;
  }
  return {mean, (within + between) / size};
}

RankChannels::Pair RankChannels::added(std::byte* workspace, int64_t c) const {
  Pair sum{};
  for (int64_t rank = 0; rank < count(); ++rank)
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += received(workspace, rank, c)[i];
  return sum;
}

}  // namespace flow::cpu
