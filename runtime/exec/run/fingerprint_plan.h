// Which tensors of a program have fingerprints, and when they are taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/exec/core/backend.h"
#include "runtime/exec/ranks/division.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

class FingerprintPlan {
 public:
  /// Elements [first, first + elements) of a tensor, or of a shard's part of it; in its memory from
  /// `offset` on, bytes.
  struct Part {
    int64_t first = 0, elements = 0;
    size_t offset = 0;
  };
  struct Entry {
    plan::TensorId tensor;  // that lies in memory
    size_t at;              // among those of a call
    Part part;              // that this rank has; none where the fingerprint is another rank's
  };
  /// Stand for steps: what a call finds before its first one; what shards combine, behind theirs.
  static constexpr size_t kFound = SIZE_MAX, kCombined = SIZE_MAX - 1;

  struct Rules {
    std::function<bool(size_t step)> writes;  // to memory, in every call?
    /// What this rank has of a tensor that the step makes.
    std::function<Part(size_t step, plan::TensorId)> part_of;
    /// The tensor of the plan whose elements it has; invalid: none. Empty: itself.
    std::function<plan::TensorId(plan::TensorId)> shown = {};
  };

  /// Of a program that takes none.
  FingerprintPlan() = default;
  /// Of what is transferred, the device that receives it has the fingerprint.
  FingerprintPlan(const plan::Job& job, const Rules& rules,
                  std::span<const TransferredTensor> transferred);

  /// As Program::fingerprinted.
  const std::vector<plan::TensorId>& tensors() const { return tensors_; }
  std::span<const Entry> of_step(size_t step) const {
    return step == kFound ? found_ : step == kCombined ? combined_ : of_steps_[step];
  }
  /// Of what the step reads first where another device left it.
  std::span<const Entry> before_step(size_t step) const { return before_steps_[step]; }

 private:
  void add(plan::TensorId tensor, size_t step, const Rules& rules, std::vector<Entry>& to);

  std::vector<plan::TensorId> tensors_;
  std::vector<Entry> found_, combined_;
  std::vector<std::vector<Entry>> before_steps_, of_steps_;
};

/// Of a tensor of which all ranks have all or each has a slice: what all have is rank 0's.
FingerprintPlan::Part part_of_rank(const TensorSlice& slice, int64_t elements, int rank);

}  // namespace flow::exec
