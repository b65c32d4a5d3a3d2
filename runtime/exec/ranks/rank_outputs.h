// Results that rank 0 gathers from all ranks: deliveries, fingerprints and optimizer slots. Faults
// are sent from any rank to all ranks.
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

/// Deliveries in the output slots of a program, of which each rank has a block.
class RankOutputs {
 public:
  RankOutputs(Collectives& ranks, int64_t shards) : ranks_(ranks), shards_(shards) {}

  /// Describes how elements of shards are copied to their positions in the whole, which begins at
  /// `offset`.
  struct Spread {
    size_t offset;
    WholeIndex place;
    int64_t elements;     // elements of a shard
    size_t element_size;  // bytes
  };
  /// Adds deliverable `index`. At `offset` there are `bytes` bytes for each rank, one block after
  /// another. `spread` is given if the shards are not stored in this order in the whole.
  void add(size_t index, size_t offset, size_t bytes, std::optional<Spread> spread = {});
  /// Gathers the requested deliveries of a call. All ranks call it for the same call. `slot` is the
  /// memory of the output slot.
  void gather(std::byte* slot, std::span<const uint8_t> wanted) const;

 private:
  struct Output {
    size_t index;
    std::vector<size_t> offsets, bytes;  // indexed by rank
    std::optional<Spread> spread;
  };
  void spread(std::byte* slot, const Output& output) const;

  Collectives& ranks_;
  const int64_t shards_;
  std::vector<Output> outputs_;
};

/// Distributes a fault of any rank to all ranks. If several ranks have a fault, that of the lowest
/// rank is used, because its shards come first.
void agree_on_fault(Collectives& ranks, std::optional<Fault>& fault);

/// Fingerprints of tensors of which each rank has a part.
class RankFingerprints {
 public:
  /// `ranks` must outlive it.
  explicit RankFingerprints(Collectives& ranks);

  /// Combines fingerprints. All ranks call it, each with the fingerprints of its parts. On rank 0,
  /// `own` then contains those of the whole tensors, added in the order of the ranks. Allocates
  /// nothing.
  void merge(std::span<Fingerprint> own);

 private:
  void merge_some(std::span<Fingerprint> own);

  Collectives& ranks_;
  const size_t at_once_;  // the fingerprints that a rank sends in one operation
  std::vector<Fingerprint> blocks_;
  std::vector<size_t> offsets_, bytes_;  // indexed by rank
};

/// Optimizer slots of which each rank has a slice: writes and reads their whole values.
class SlicedSlots {
 public:
  /// `ranks` must outlive it.
  SlicedSlots(const Division& division, Collectives& ranks);

  bool contains(plan::TensorId slot) const { return slots_.contains(slot); }
  // The functions below require contains(slot).

  /// Returns this rank's part of the whole value. `Byte` is std::byte, const or not.
  template <typename Byte>
  std::span<Byte> part_of(plan::TensorId slot, std::span<Byte> whole) const {
    const Slot& found = slots_.at(slot);
    return whole.subspan(found.first, found.bytes_here);
  }
  size_t bytes_here(plan::TensorId slot) const { return slots_.at(slot).bytes_here; }
  /// Gathers all parts on rank 0, where `memory` has the size of the whole value and already
  /// contains rank 0's part. On other ranks, `memory` contains only their part. All ranks call it.
  void gather(plan::TensorId slot, std::byte* memory) const;

 private:
  struct Slot {
    size_t first, bytes_here;            // this rank's part
    std::vector<size_t> offsets, bytes;  // indexed by rank; only rank 0 has those of others
  };

  Collectives& ranks_;
  std::map<plan::TensorId, Slot> slots_;
};

}  // namespace flow::exec
