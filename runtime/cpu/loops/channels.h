// A view of a tensor along one of its axes: the axes before it in memory, its channels, and the
// axes after it. Also statistics of channels over the whole batch when each rank has one shard of
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// [outer, channels, inner] in memory order. The channels of a channels-last tensor are innermost.
struct ChannelView {
  int64_t outer = 1, channels = 1, inner = 1;

  int64_t elements() const { return outer * channels * inner; }
  /// Returns the number of elements of one channel.
  int64_t count() const { return outer * inner; }
};

ChannelView view_along(const TensorDesc& desc, int axis);

/// How elements are cut into pieces for sums over channels, which depends only on their numbers. An
/// outer row is cut into blocks of channels, and several rows form a chunk.
struct ChannelPieces {
  /// The number of channels of a block if they are innermost.
  static constexpr int64_t kMostInnermost = 256;

  explicit ChannelPieces(const ChannelView& view);

  int64_t pieces() const { return chunks * blocks; }
  /// Returns the number of elements of a channel in a chunk.
  int64_t count_of(int64_t chunk) const;

  ChannelView view;
  int64_t block = 1, blocks = 1;  // channels per block; blocks per row
  int64_t rows = 1, chunks = 1;   // outer rows per chunk; chunks
};

/// Piece i has `rows` rows of `channels` channels of `inner` elements. The rows are row_stride
/// apart.
struct ChannelPiece {
  ChannelPiece(const ChannelPieces& all, int64_t i);
  int64_t chunk, channel;  // the index of its chunk; its first channel
  int64_t rows, channels, inner, row_stride;
  int64_t offset;  // the offset of its first element
};

/// Two numbers for each channel, which the ranks of a synchronized step exchange and join in the
/// order of ranks. In other steps, the numbers are those of this rank. `own(c)` computes them.
class RankChannels {
 public:
  using Pair = std::array<double, 2>;

  /// `used` is the number of bytes of the workspace that the kernel itself needs. Throws RunError
  /// if the step is synchronized and ranks have more than one shard.
  RankChannels(const Request& request, int64_t channels, size_t used);

  /// Returns the bytes of the workspace, including those that the kernel needs.
  size_t workspace() const { return workspace_; }
  /// Returns the number of bytes that all ranks exchange.
  size_t exchanged() const { return bytes_of_rank() * starts_.size(); }
  /// Returns the number of ranks whose numbers are joined.
  int64_t count() const { return ranks_ ? std::ssize(starts_) : 1; }

  /// Exchanges the numbers. REQUIRES: All ranks call it in the same order.
  template <typename Own>
  void exchange(std::byte* workspace, Own own) const {
    if (!ranks_) return;
    constexpr int64_t kChannels = 64;
    for_pieces(threads_, channels_, kChannels, [&](int64_t first, int64_t end) {
      for (int64_t c = first; c < end; ++c) pairs(workspace)[c] = own(c);
    });
    exchange(workspace);
  }

  // The following functions are for channel c after an exchange.

  /// Returns the mean and the variance of all elements, from those of each rank. All ranks have the
  /// same number of elements.
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
  /// Returns the numbers that this rank sends, followed by those that it has received from each
  /// rank.
  Pair* pairs(std::byte* workspace) const { return reinterpret_cast<Pair*>(workspace + start_); }
  const Pair& received(std::byte* workspace, int64_t rank, int64_t c) const {
    return pairs(workspace)[(1 + rank) * channels_ + c];
  }
  void exchange(std::byte* workspace) const;
  Pair joined_moments(std::byte* workspace, int64_t c) const;
  Pair added(std::byte* workspace, int64_t c) const;

  exec::Collectives* ranks_ = nullptr;  // null if nothing is exchanged
  int64_t channels_;
  int threads_;
  size_t start_ = 0, workspace_;
  std::vector<size_t> send_starts_, starts_, bytes_;  // indexed by rank
};

}  // namespace flow::cpu
