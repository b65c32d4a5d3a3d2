// Fingerprints of tensors: which ones a program takes and when, and a file of fixed size in the run
// directory that stores those of the last steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/fingerprint.h"
#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// The fingerprints that a run is to keep.
struct FingerprintOptions {
  int64_t every = 1;             // interval in steps
  uint64_t bytes = 64ULL << 20;  // the maximum size of the file
};

/// Throws RequestError if the file would have no room for one step.
void require_room(const FingerprintOptions& options, size_t tensors);

/// Writes a ring of slots: step s goes to slot (s / every) modulo the number of slots. Each slot
/// has a checksum, so that readers ignore a slot that a crash cut short.
class FingerprintWriter {
 public:
  /// Creates a file, or continues the file of an earlier run if it has the same tensors, interval
  /// and size; its steps starting with `resume_from` are dropped. Throws RunError if the file
  /// cannot be written. REQUIRES: the file has room for a step.
  FingerprintWriter(const fs::path& path, std::span<const plan::TensorId> tensors,
                    const FingerprintOptions& options, int64_t resume_from);

  /// Writes the fingerprints of a step. Allocates nothing. REQUIRES: `values` has one fingerprint
  /// for each tensor; `step` is a multiple of the interval.
  void write(int64_t step, std::span<const Fingerprint> values);
  /// Called after the last step. Throws RunError if the system could not store what was written.
  void close() { file_.close(); }
  bool is_continued() const { return continued_; }

 private:
  File file_;
  const int64_t every_;
  uint64_t begin_ = 0, slots_ = 0;
  std::vector<std::byte> slot_;
  bool continued_ = false;
};

/// Reads a fingerprint file from an untrusted source.
class FingerprintReader {
 public:
  /// Throws RequestError if it is not a fingerprint file or is damaged, RunError if it cannot be
  /// read.
  explicit FingerprintReader(const fs::path& path);

  int64_t every() const { return every_; }
  /// The tensors in the order of computation, like Program::fingerprinted.
  const std::vector<plan::TensorId>& tensors() const { return tensors_; }
  /// The steps whose slots are intact, in ascending order.
  std::vector<int64_t> steps() const;
  /// The number of slots that are cut short or damaged.
  size_t damaged() const { return damaged_; }
  /// Returns the fingerprints of a step. REQUIRES: `step` is one of `steps()`.
  std::vector<Fingerprint> of_step(int64_t step) const;

 private:
  MappedFile file_;
  std::span<const std::byte> bytes_;  // the contents of the file
  int64_t every_ = 1;
  std::vector<plan::TensorId> tensors_;
  std::map<int64_t, uint64_t> offsets_;  // offsets of the slots, by step
  size_t damaged_ = 0;
};

/// The tensors of a program that have fingerprints, and the steps at which they are taken.
class FingerprintPlan {
 public:
  /// Elements [first, first + elements) of a tensor, or of a shard's part of it. In the tensor's
  /// memory they begin at byte `offset`.
  struct Part {
    int64_t first = 0, elements = 0;
    size_t offset = 0;
  };
  struct Entry {
    plan::TensorId tensor;  // a tensor that is in memory
    size_t at;              // its index among the fingerprints of a call
    Part part;  // the part that this rank has; empty if another rank takes the fingerprint
  };
  /// Special values in place of a step: kFound is the state before a call's first step, kCombined
  /// is the point after the results of the shards are combined.
  static constexpr size_t kFound = SIZE_MAX, kCombined = SIZE_MAX - 1;

  struct Rules {
    std::function<bool(size_t step)> writes;  // true if every call writes the step to memory
    /// Returns the part that this rank has of a tensor that the step makes.
    std::function<Part(size_t step, plan::TensorId)> part_of;
    /// Returns the tensor of the plan to which the tensor's elements belong; invalid if there is
    /// none. If the function is empty, each tensor represents itself.
    std::function<plan::TensorId(plan::TensorId)> shown = {};
  };

  /// Makes the plan of a program that takes no fingerprints.
  FingerprintPlan() = default;
  /// Lists the fingerprints of a program. For a transferred tensor, the device that receives it
  /// takes the fingerprint.
  FingerprintPlan(const plan::Job& job, const Rules& rules,
                  std::span<const TransferredTensor> transferred);

  /// The tensors, like Program::fingerprinted.
  const std::vector<plan::TensorId>& tensors() const { return tensors_; }
  std::span<const Entry> of_step(size_t step) const {
    return step == kFound ? found_ : step == kCombined ? combined_ : of_steps_[step];
  }
  /// The fingerprints to take before the step: those of tensors that another device left in memory
  /// and that this step is the first to read.
  std::span<const Entry> before_step(size_t step) const { return before_steps_[step]; }

 private:
  void add(plan::TensorId tensor, size_t step, const Rules& rules, std::vector<Entry>& to);

  std::vector<plan::TensorId> tensors_;
  std::vector<Entry> found_, combined_;
  std::vector<std::vector<Entry>> before_steps_, of_steps_;
};

}  // namespace flow::exec
