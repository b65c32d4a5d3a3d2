// What shards make parts of: a sum, mean, maximum or minimum over shards, always by one binary
// tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::cpu {

/// The tree is that of a binary counter: parts of shards 0 and 1 are joined, those of 2 and 3, then
/// both pairs, and so on. Floats are added in float32, those of float64 and scalars in float64. The
/// shards of a rank make a subtree, whose total is joined to those of the other ranks.
class ShardSums {
 public:
  struct Entry {
    plan::TensorId tensor;
    size_t step;  // that makes it
    DType dtype;
    bool scalar;
    int64_t elements;
    plan::Combine combine;
    size_t total_size;  // bytes of an element of a total
  };

  ShardSums() = default;
  /// Of the job's tensors that are combined. Of several in one memory, the first stands for all.
  /// `owners`: for each tensor, whose memory it lies in. `ranks`: that share the shards.
  ShardSums(const plan::Job& job, std::span<const plan::TensorId> owners, int64_t ranks = 1);

  std::span<const Entry> entries() const { return entries_; }
  /// Of this rank.
  int64_t shards_here() const { return here_; }
  /// Of memory that it needs: log2 of the number of a rank's shards times the combined tensors.
  size_t bytes() const { return bytes_; }
  /// `memory`: 64-byte aligned; outlives it.
  void use(std::byte* memory) { memory_ = memory; }

  /// Takes a shard's part of entry `entry`, in the order of this rank's shards, counted from 0. Of
  /// the last one, the total goes to `total`; null: it is that of all shards, and the whole
  /// replaces the part. The part of an only shard may be its total.
  void add(int threads, size_t entry, int64_t shard, std::byte* part,
           std::byte* total = nullptr) const;
  /// Elements [first, end) of the whole, from the totals of all ranks: `totals` and `whole` begin
  /// at element `first`.
  void join_ranks(int threads, size_t entry, int64_t first, int64_t end,
                  std::span<const std::byte* const> totals, std::byte* whole) const;

 private:
  struct Levels {
    size_t offset, stride;  // in the memory: of the first level, from one to the next
  };
  void add_entry(const plan::Job& job, plan::TensorId tensor, size_t step);
  template <typename T, typename Total>
  void add_piece(size_t entry, int64_t shard, T* part, Total* total, int64_t first,
                 int64_t end) const;

  int64_t shards_ = 1, here_ = 1;  // of all ranks, of this one
  std::vector<Entry> entries_;
  std::vector<Levels> levels_;  // of each
  size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace flow::cpu
