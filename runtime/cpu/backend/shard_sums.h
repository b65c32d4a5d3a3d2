// Combines the parts that shards make into a sum, mean, maximum or minimum, always along the same
// binary tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::cpu {

/// The tree is that of a binary counter: the parts of shards 0 and 1 are joined, then those of 2
/// and 3, then both pairs, and so on. Floats are added in float32; float64 and scalars are added in
/// float64. The shards of a rank form a subtree, whose total is joined with those of the other
/// ranks.
class ShardSums {
 public:
  struct Entry {
    plan::TensorId tensor;
    size_t step;  // the step that makes the tensor
    DType dtype;
    bool scalar;
    int64_t elements;
    plan::Combine combine;
    size_t total_size;  // the bytes of an element of a total
  };

  ShardSums() = default;
  /// Lists the job's tensors that are combined. If several share memory, the first represents them
  /// all. `owners` contains, for each tensor, the tensor whose memory it uses. `ranks` is the
  /// number of ranks that share the shards.
  ShardSums(const plan::Job& job, std::span<const plan::TensorId> owners, int64_t ranks = 1);

  std::span<const Entry> entries() const { return entries_; }
  /// Returns the number of shards of this rank.
  int64_t shards_here() const { return here_; }
  /// Returns the bytes of memory that the sums need, which grow with log2 of the number of this
  /// rank's shards times the size of the combined tensors.
  size_t bytes() const { return bytes_; }
  /// Sets the memory, which is 64-byte aligned and outlives this object.
  void use(std::byte* memory) { memory_ = memory; }

  /// Adds a shard's part of entry `entry`. REQUIRES: called in the order of this rank's shards,
  /// which `shard` counts from 0. The total is written to `total` after the last shard. If `total`
  /// is null, this rank has all shards, and the whole tensor replaces the part. If there is only
  /// one shard, `part` and `total` may be the same.
  void add(int threads, size_t entry, int64_t shard, std::byte* part,
           std::byte* total = nullptr) const;
  /// Computes the elements [first, end) of the whole tensor from the totals of all ranks. `totals`
  /// and `whole` begin at element `first`.
  void join_ranks(int threads, size_t entry, int64_t first, int64_t end,
                  std::span<const std::byte* const> totals, std::byte* whole) const;

 private:
  struct Levels {
    // The offset of the first level in the memory, and the bytes from one level to the next.
    size_t offset, stride;
  };
  void add_entry(const plan::Job& job, plan::TensorId tensor, size_t step);
  template <typename T, typename Total>
  void add_piece(size_t entry, int64_t shard, T* part, Total* total, int64_t first,
                 int64_t end) const;

  int64_t shards_ = 1, here_ = 1;  // shards of all ranks; shards of this rank
  std::vector<Entry> entries_;
  std::vector<Levels> levels_;  // indexed by entry
  size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace flow::cpu
