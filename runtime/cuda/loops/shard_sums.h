// Joins what the shards of a batch made: sums, means, maxima and minima, by one binary tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// A tensor of which shards make parts. All addresses are the device's.
struct ShardPart {
  DType dtype;
  bool scalar;
  plan::Combine combine;
  int64_t elements;
  std::byte* part;    // a shard's; after that of the last shard, the whole
  std::byte* levels;  // level k holds what 2^k shards made; one fewer than the tree has
  size_t stride;      // bytes from one level to the next
  /// Where the last shard of a rank leaves the total of this rank; null: in `part`, as the whole.
  std::byte* total = nullptr;
};

/// Elements of which each rank has a total.
struct RankPart {
  DType dtype;
  bool scalar;
  plan::Combine combine;
  int64_t elements;
  std::byte* totals;  // of rank 0; that of rank r is r strides behind it; all are used up
  size_t stride;
  std::byte* whole;
};

/// Bytes of a level. Floats are added in float32, those of float64 and scalars in float64.
size_t level_bytes(DType dtype, bool scalar, int64_t elements);

/// Takes the parts of one shard, in the order of shards: those of this rank, counted from 0.
void join_parts(std::span<const ShardPart> parts, int64_t shard, int64_t shards,
                const LaunchState& state);

/// Makes wholes of the totals of all ranks. `shards`: of all ranks together.
void join_ranks(std::span<const RankPart> parts, int ranks, int64_t shards,
                const LaunchState& state);

}  // namespace flow::cuda
