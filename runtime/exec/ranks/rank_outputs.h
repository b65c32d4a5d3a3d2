// What the shards of all ranks deliver, on its way to rank 0, and their faults on their way to all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/whole_index.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/collectives.h"

namespace flow::exec {

/// Deliveries that lie in the output slots of a program: each rank has a block of each.
class RankOutputs {
 public:
  RankOutputs(Collectives& ranks, int64_t shards) : ranks_(ranks), shards_(shards) {}

  /// Where elements of shards go whose whole lies at `offset`.
  struct Spread {
    size_t offset;
    WholeIndex place;
    int64_t elements;     // of a shard
    size_t element_size;  // bytes
  };
  /// Of deliverable `index`: `bytes` of all ranks at `offset`, one rank's block after the other.
  /// `spread`: where these are shards that do not lie so in the whole.
  void add(size_t index, size_t offset, size_t bytes, std::optional<Spread> spread = {});
  /// All ranks call this for the same call. `slot`: the memory of its output slot.
  void gather(std::byte* slot, std::span<const uint8_t> wanted) const;

 private:
  struct Output {
    size_t index;
    std::vector<size_t> offsets, bytes;  // by rank
    std::optional<Spread> spread;
  };
  void spread(std::byte* slot, const Output& output) const;

  Collectives& ranks_;
  const int64_t shards_;
  std::vector<Output> outputs_;
};

/// A fault of any rank becomes that of all. That of the lowest rank, whose shards come first, is
/// the one to report.
void agree_on_fault(Collectives& ranks, std::optional<Fault>& fault);

}  // namespace flow::exec
