// Fingerprints of tensors of which each rank has a part.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/base/fingerprint.h"
#include "runtime/exec/core/collectives.h"

namespace flow::exec {

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

}  // namespace flow::exec
