// Which tensors of a program have fingerprints, and those that its calls have taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/cpu/backend/fingerprint.h"
#include "runtime/exec/run/fingerprint_plan.h"
#include "runtime/plan/model/plan.h"

namespace flow::cpu {

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
