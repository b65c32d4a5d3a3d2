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
  /// Elements [first, first + elements) of a tensor, or of a shard's part of it; in its memory from
  /// `offset` on, bytes.
  struct Part {
    int64_t first = 0, elements = 0;
    size_t offset = 0;
  };
  struct Entry {
    plan::TensorId tensor;
    size_t at;  // among those of a call
    Part part;  // that this rank has; none where the fingerprint is another rank's
  };
  /// Stand for steps: what a call finds before its first one; what shards combine, behind theirs.
  static constexpr size_t kFound = SIZE_MAX, kCombined = SIZE_MAX - 1;
  /// What this rank has of a tensor that the step makes.
  using PartOf = std::function<Part(size_t step, plan::TensorId)>;

  /// Of a program that takes none.
  ProgramFingerprints() = default;
  /// `writes`: does the step write to memory, in every call? `made`: as in PrepareOptions.
  ProgramFingerprints(const plan::Job& job, const std::function<bool(size_t step)>& writes,
                      const PartOf& part_of, size_t output_slots, Made made);

  const std::vector<plan::TensorId>& tensors() const { return tensors_; }
  std::span<const Entry> of_step(size_t step) const {
    return step == kFound ? found_ : step == kCombined ? combined_ : of_steps_[step];
  }
  /// Before a call.
  void begin(size_t output_slot);
  /// Adds that of `source`, which is the tensor or a shard's part of it, in the order of shards.
  void take(int threads, const Entry& entry, int64_t step, size_t output_slot,
            const FingerprintSource& source);
  std::span<Fingerprint> taken(size_t output_slot) { return taken_[output_slot]; }
  std::span<const Fingerprint> taken(size_t output_slot) const { return taken_[output_slot]; }
  /// What taking them took until now.
  double seconds() const { return seconds_; }

 private:
  void add(const plan::Job& job, plan::TensorId tensor, const Part& part, std::vector<Entry>& to);

  std::vector<plan::TensorId> tensors_;
  std::vector<Entry> found_, combined_;
  std::vector<std::vector<Entry>> of_steps_;
  std::vector<std::vector<Fingerprint>> taken_;  // by output slot
  std::vector<Fingerprint> chunks_;
  Made made_;
  double seconds_ = 0;
};

}  // namespace flow::cpu
