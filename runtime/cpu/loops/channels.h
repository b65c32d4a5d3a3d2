// A tensor seen from one of its axes: what lies before it in memory, its channels, what lies
// behind.
#pragma once

#include <cstdint>

#include "runtime/cpu/kernel.h"

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

}  // namespace flow::cpu
