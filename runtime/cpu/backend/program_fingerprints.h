// Which tensors of a program have fingerprints, and those that its calls have taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/cpu/loops/fingerprint.h"
#include "runtime/plan/model/plan.h"

namespace flow::cpu {

class ProgramFingerprints {
 public:
  using Made = std::function<void(int64_t step, plan::TensorId, std::span<std::byte>)>;
  struct Entry {
    plan::TensorId tensor;
    size_t at;  // among those of a call
  };
  /// Stands for a step: what a call finds before its first one.
  static constexpr size_t kFound = SIZE_MAX;

  /// Of a program that takes none.
  ProgramFingerprints() = default;
  /// `writes`: does the step write to memory, in every call? `made`: as in PrepareOptions.
  ProgramFingerprints(const plan::Job& job, const std::function<bool(size_t step)>& writes,
                      size_t output_slots, Made made);

  const std::vector<plan::TensorId>& tensors() const { return tensors_; }
  /// Stands for the step behind those of shards: what they combine.
  size_t combined() const { return of_steps_.size() - 1; }
  std::span<const Entry> of_step(size_t step) const {
    return step == kFound ? found_ : of_steps_[step];
  }
  /// Before a call.
  void begin(size_t output_slot);
  /// Adds that of `source`, which is the tensor or a shard's part of it, in the order of shards.
  void take(int threads, const Entry& entry, int64_t step, size_t output_slot,
            const FingerprintSource& source);
  std::span<const Fingerprint> taken(size_t output_slot) const { return taken_[output_slot]; }
  /// What taking them took until now.
  double seconds() const { return seconds_; }

 private:
  void add(const plan::Job& job, plan::TensorId tensor, std::vector<Entry>& to);

  std::vector<plan::TensorId> tensors_;
  std::vector<Entry> found_;
  std::vector<std::vector<Entry>> of_steps_;     // and what is combined
  std::vector<std::vector<Fingerprint>> taken_;  // by output slot
  std::vector<Fingerprint> chunks_;
  Made made_;
  double seconds_ = 0;
};

}  // namespace flow::cpu
