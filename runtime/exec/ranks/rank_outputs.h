// What rank 0 gathers from all ranks: deliveries, fingerprints and optimizer slots. Faults go from
// any rank to all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/fingerprint.h"
#include "runtime/base/index_maps.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/exec/ranks/division.h"

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

/// Fingerprints of tensors of which each rank has a part.
class RankFingerprints {
 public:
  /// The ranks outlive it.
  explicit RankFingerprints(Collectives& ranks);

  /// All ranks call it, each with the fingerprints of its parts. On rank 0 they become those of the
  /// whole, added in the order of the ranks. Allocates nothing.
  void merge(std::span<Fingerprint> own);

 private:
  void merge_some(std::span<Fingerprint> own);

  Collectives& ranks_;
  const size_t at_once_;  // fingerprints of a rank
  std::vector<Fingerprint> blocks_;
  std::vector<size_t> offsets_, bytes_;  // by rank
};

/// Optimizer slots of which each rank has a slice: how their whole values are written and read.
class SlicedSlots {
 public:
  /// The ranks outlive it.
  SlicedSlots(const Division& division, Collectives& ranks);

  bool contains(plan::TensorId slot) const { return slots_.contains(slot); }
  // REQUIRES below: contains(slot).

  /// What this rank has of the whole value. `Byte`: const or not.
  template <typename Byte>
  std::span<Byte> part_of(plan::TensorId slot, std::span<Byte> whole) const {
    const Slot& found = slots_.at(slot);
    return whole.subspan(found.first, found.bytes_here);
  }
  size_t bytes_here(plan::TensorId slot) const { return slots_.at(slot).bytes_here; }
  /// Rank 0 gets all parts: `memory` holds the whole value, where its own part is already. That of
  /// another rank holds its part alone. All ranks call it.
  void gather(plan::TensorId slot, std::byte* memory) const;

 private:
  struct Slot {
    size_t first, bytes_here;            // of this rank's part
    std::vector<size_t> offsets, bytes;  // by rank; on another rank than 0 only its own are there
  };

  Collectives& ranks_;
  std::map<plan::TensorId, Slot> slots_;
};

}  // namespace flow::exec
