// Optimizer slots of which each rank has a slice: how their whole values are written and read.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "runtime/exec/core/collectives.h"
#include "runtime/exec/ranks/division.h"

namespace flow::exec {

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
