// Combines the partial results of a batch's shards (sums, means, maxima and minima) along one
// binary tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// A tensor of which each shard computes a part. All addresses are device addresses.
struct ShardPart {
  DType dtype;
  bool scalar;
  plan::Combine combine;
  int64_t elements;
  std::byte* part;  // the part of one shard; after the last shard, the whole tensor
  // Level k stores the result of 2^k shards; there is one level fewer than the tree has.
  std::byte* levels;
  size_t stride;  // bytes from one level to the next
  /// Where the last shard of a rank stores the total of this rank. If null, the whole tensor is
  /// written to `part`.
  std::byte* total = nullptr;
};

/// Elements for which each rank has a total.
struct RankPart {
  DType dtype;
  bool scalar;
  plan::Combine combine;
  int64_t elements;
  // The totals of rank 0. Those of rank r follow after r strides. join_ranks may overwrite all of
  // them.
  std::byte* totals;
  size_t stride;
  std::byte* whole;
};

/// Returns the number of bytes of a level. Floats are added in float32; float64 and scalars are
/// added in float64.
size_t level_bytes(DType dtype, bool scalar, int64_t elements);

/// Adds the parts of one shard to the tree. REQUIRES: called in the order of this rank's shards,
/// which `shard` counts from 0.
void join_parts(std::span<const ShardPart> parts, int64_t shard, int64_t shards,
                const LaunchState& state);

/// Computes the whole tensors from the totals of all ranks. `shards` counts the shards of all ranks
/// together.
void join_ranks(std::span<const RankPart> parts, int ranks, int64_t shards,
                const LaunchState& state);

}  // namespace flow::cuda
