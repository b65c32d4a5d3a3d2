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
/// both pairs, and so on. Floats are added in float32, those of float64 and scalars in float64.
class ShardSums {
 public:
  struct Entry {
    plan::TensorId tensor;
    size_t step;  // that makes it
  };

  ShardSums() = default;
  /// Of the job's tensors that are combined. Of several in one memory, the first stands for all.
  /// `owners`: for each tensor, whose memory it lies in.
  ShardSums(const plan::Job& job, std::span<const plan::TensorId> owners);

  std::span<const Entry> entries() const { return entries_; }
  /// Of memory that it needs: log2 of the number of shards times the combined tensors.
  size_t bytes() const { return bytes_; }
  /// `memory`: 64-byte aligned; outlives it.
  void use(std::byte* memory) { memory_ = memory; }

  /// Takes a shard's part of entry `entry`, in the order of shards. The whole replaces the part of
  /// the last shard.
  void add(int threads, size_t entry, int64_t shard, std::byte* part) const;

 private:
  struct Sum {
    DType dtype;
    bool scalar;
    int64_t elements;
    plan::Combine combine;
    size_t offset, stride;  // in the memory: of its first level, from one level to the next
  };
  void add_entry(const plan::Job& job, Entry entry);
  template <typename T, typename Total>
  void add_piece(const Sum& sum, int64_t shard, T* part, int64_t first, int64_t end) const;

  int64_t shards_ = 1;
  std::vector<Entry> entries_;
  std::vector<Sum> sums_;  // of each
  size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace flow::cpu
