// A tensor seen from one of its axes: what lies before it in memory, its channels, what lies after;
// and statistics of channels over the whole batch, where each rank has one shard of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// [outer, channels, inner] as the memory lies; a channels-last tensor has its channels innermost.
struct ChannelView {
  int64_t outer = 1, channels = 1, inner = 1;

  int64_t elements() const { return outer * channels * inner; }
  /// Elements of one channel.
  int64_t count() const { return outer * inner; }
};

ChannelView view_along(const TensorDesc& desc, int axis);

/// How the elements are cut up for sums over channels, by their numbers alone: an outer row is cut
/// into blocks of channels, and some rows make a chunk.
struct ChannelPieces {
  /// Channels of a block, where they are innermost.
  static constexpr int64_t kMostInnermost = 256;

  explicit ChannelPieces(const ChannelView& view);

  int64_t pieces() const { return chunks * blocks; }
  /// Elements of a channel in a chunk.
  int64_t count_of(int64_t chunk) const;

  ChannelView view;
  int64_t block = 1, blocks = 1;  // channels
  int64_t rows = 1, chunks = 1;   // outer rows
};

/// Piece i: `rows` rows of `channels` channels of `inner` elements. Rows lie row_stride apart.
struct ChannelPiece {
  ChannelPiece(const ChannelPieces& all, int64_t i);
  int64_t chunk, channel;  // its chunk, its first channel
  int64_t rows, channels, inner, row_stride;
  int64_t offset;  // of its first element
};

/// Two numbers for each channel, which the ranks of a synchronized step exchange and join in the
/// order of ranks. Of other steps, the numbers are those of this rank. `own(c)` makes them.
class RankChannels {
 public:
  using Pair = std::array<double, 2>;

  /// `used`: bytes of the workspace that the kernel needs for itself. RunError where a step is
  /// synchronized and ranks have more than one shard.
  RankChannels(const Request& request, int64_t channels, size_t used);

  /// Bytes, with those in use.
  size_t workspace() const { return workspace_; }
  /// Bytes that come together from all ranks.
  size_t exchanged() const { return bytes_of_rank() * starts_.size(); }
  /// Ranks whose numbers are joined.
  int64_t count() const { return ranks_ ? std::ssize(starts_) : 1; }

  /// REQUIRES: all ranks call it, in one order.
  template <typename Own>
  void exchange(std::byte* workspace, Own own) const {
    if (!ranks_) return;
    constexpr int64_t kChannels = 64;
    for_pieces(threads_, channels_, kChannels, [&](int64_t first, int64_t end) {
      for (int64_t c = first; c < end; ++c) pairs(workspace)[c] = own(c);
    });
    exchange(workspace);
  }

  // After an exchange, of channel c:

  /// Mean and variance of all elements, from those of each rank, of which all have equally many.
  template <typename Own>
  Pair moments(std::byte* workspace, int64_t c, Own own) const {
    return ranks_ ? joined_moments(workspace, c) : own(c);
  }
  template <typename Own>
  Pair sums(std::byte* workspace, int64_t c, Own own) const {
    return ranks_ ? added(workspace, c) : own(c);
  }

 private:
  size_t bytes_of_rank() const { return static_cast<size_t>(channels_) * sizeof(Pair); }
  /// What this rank sends; then what it has received from each.
  Pair* pairs(std::byte* workspace) const { return reinterpret_cast<Pair*>(workspace + start_); }
  const Pair& received(std::byte* workspace, int64_t rank, int64_t c) const {
    return pairs(workspace)[(1 + rank) * channels_ + c];
  }
  void exchange(std::byte* workspace) const;
  Pair joined_moments(std::byte* workspace, int64_t c) const;
  Pair added(std::byte* workspace, int64_t c) const;

  exec::Collectives* ranks_ = nullptr;  // null: nothing is exchanged
  int64_t channels_;
  int threads_;
  size_t start_ = 0, workspace_;
  std::vector<size_t> send_starts_, starts_, bytes_;  // by rank
};

}  // namespace flow::cpu
