// Fingerprints of tensors in memory, and the fingerprints that a program's calls take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/fingerprint.h"
#include "runtime/cpu/kernel.h"
#include "runtime/exec/core/fingerprints.h"
#include "runtime/plan/model/plan.h"

namespace flow::cpu {

/// A tensor, or the part of it that belongs to a shard or a rank.
struct FingerprintSource {
  DType dtype;
  const Shape& shape;  // the last two axes of a 4-D tensor are those of the whole tensor
  Layout layout;
  const std::byte* data;
  int64_t elements;   // the elements at `data`
  int64_t first = 0;  // the index of the first one in the whole tensor
};

/// Returns the largest number of chunks that fingerprint_of uses for a tensor of this shape.
size_t fingerprint_chunks(const Shape& shape);

/// Returns the fingerprint. Results are bit-identical for any number of threads; in another layout,
/// sums may differ in their last digits. REQUIRES: For a channels-last tensor, all elements of the
/// shape are present and `first` is a multiple of the plane's size. `chunks` has room for all
/// chunks and is overwritten. Allocates nothing.
Fingerprint fingerprint_of(int threads, const FingerprintSource& source,
                           std::span<Fingerprint> chunks);

class ProgramFingerprints {
 public:
  using Made = std::function<void(int64_t step, plan::TensorId, std::span<std::byte>)>;
  using Entry = exec::FingerprintPlan::Entry;

  /// Takes no fingerprints.
  ProgramFingerprints() = default;
  /// `made` is as in PrepareOptions.
  ProgramFingerprints(const plan::Job& job, exec::FingerprintPlan plan, size_t output_slots,
                      Made made);

  const std::vector<plan::TensorId>& tensors() const { return plan_.tensors(); }
  const exec::FingerprintPlan& plan() const { return plan_; }
  /// Clears the fingerprints before a call.
  void begin(size_t output_slot);
  /// Adds the fingerprint of `source`, which is the part of the entry's tensor at `data`. The parts
  /// of shards, and the results of a loop's passes, are taken in order: each follows the previous
  /// one.
  void take(int threads, const Entry& entry, int64_t step, size_t output_slot,
            FingerprintSource source);
  std::span<Fingerprint> taken(size_t output_slot) { return taken_[output_slot]; }
  std::span<const Fingerprint> taken(size_t output_slot) const { return taken_[output_slot]; }
  /// Returns the seconds that taking fingerprints has needed so far.
  double seconds() const { return seconds_; }

 private:
  exec::FingerprintPlan plan_;
  std::vector<std::vector<Fingerprint>> taken_;  // indexed by output slot
  std::vector<Fingerprint> chunks_;
  Made made_;
  double seconds_ = 0;
};

}  // namespace flow::cpu
