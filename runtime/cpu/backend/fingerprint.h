// Fingerprints of tensors in memory, which tensors of a program have them, and those that its calls
// have taken.
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

/// A tensor, or the part of it that a shard or a rank has.
struct FingerprintSource {
  DType dtype;
  const Shape& shape;  // of 4-D ones, the last two axes are those of the whole
  Layout layout;
  const std::byte* data;
  int64_t elements;   // at `data`
  int64_t first = 0;  // index of the first one in the whole
};

/// On how many chunks fingerprint_of works for a tensor of that shape, at most.
size_t fingerprint_chunks(const Shape& shape);

/// The same bits for any number of threads; in another layout, sums may differ in their last
/// digits. REQUIRES: of channels-last tensors, all elements of the shape are there, and `first` is
/// a multiple of the plane. `chunks`: room for as many, overwritten. Allocates nothing.
Fingerprint fingerprint_of(int threads, const FingerprintSource& source,
                           std::span<Fingerprint> chunks);

class ProgramFingerprints {
 public:
  using Made = std::function<void(int64_t step, plan::TensorId, std::span<std::byte>)>;
  using Entry = exec::FingerprintPlan::Entry;

  /// Of a program that takes none.
  ProgramFingerprints() = default;
  /// `made`: as in PrepareOptions.
  ProgramFingerprints(const plan::Job& job, exec::FingerprintPlan plan, size_t output_slots,
                      Made made);

  const std::vector<plan::TensorId>& tensors() const { return plan_.tensors(); }
  const exec::FingerprintPlan& plan() const { return plan_; }
  /// Before a call.
  void begin(size_t output_slot);
  /// Adds that of `source`, which is the part of the entry's tensor that lies at `data`. Parts of
  /// shards, and what passes of a loop make, come in order: each lies behind those before.
  void take(int threads, const Entry& entry, int64_t step, size_t output_slot,
            FingerprintSource source);
  std::span<Fingerprint> taken(size_t output_slot) { return taken_[output_slot]; }
  std::span<const Fingerprint> taken(size_t output_slot) const { return taken_[output_slot]; }
  /// What taking them took until now.
  double seconds() const { return seconds_; }

 private:
  exec::FingerprintPlan plan_;
  std::vector<std::vector<Fingerprint>> taken_;  // by output slot
  std::vector<Fingerprint> chunks_;
  Made made_;
  double seconds_ = 0;
};

}  // namespace flow::cpu
