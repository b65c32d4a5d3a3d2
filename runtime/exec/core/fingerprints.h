// Fingerprints of tensors: which a program takes and when, and the file in the directory of a run,
// of fixed size, that holds those of its last steps.
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

/// What a run is asked to keep.
struct FingerprintOptions {
  int64_t every = 1;             // steps
  uint64_t bytes = 64ULL << 20;  // of the file, at most
};

/// RequestError where the file would have no room for one step.
void require_room(const FingerprintOptions& options, size_t tensors);

/// Writes a ring: step s lies in slot s / every modulo their number. A slot has a checksum, so that
/// one that a crash cut short does not count.
class FingerprintWriter {
 public:
  /// A new file; or where it has the same tensors, interval and size, that of an earlier run, of
  /// which steps from `resume_from` on go. RunError where it cannot be written. REQUIRES: room for
  /// a step.
  FingerprintWriter(const fs::path& path, std::span<const plan::TensorId> tensors,
                    const FingerprintOptions& options, int64_t resume_from);

  /// Allocates nothing. REQUIRES: one for each tensor; a multiple of the interval.
  void write(int64_t step, std::span<const Fingerprint> values);
  /// After the last step. RunError where the system could not keep what was written.
  void close() { file_.close(); }
  bool is_continued() const { return continued_; }

 private:
  File file_;
  const int64_t every_;
  uint64_t begin_ = 0, slots_ = 0;
  std::vector<std::byte> slot_;
  bool continued_ = false;
};

/// Reads such a file, which anybody may have written.
class FingerprintReader {
 public:
  /// RequestError where it is none or damaged, RunError where it cannot be read.
  explicit FingerprintReader(const fs::path& path);

  int64_t every() const { return every_; }
  /// In the order of computing, as Program::fingerprinted.
  const std::vector<plan::TensorId>& tensors() const { return tensors_; }
  /// Those whose slots are whole, in order.
  std::vector<int64_t> steps() const;
  /// How many slots are cut short or damaged.
  size_t damaged() const { return damaged_; }
  /// REQUIRES: it is one of the steps.
  std::vector<Fingerprint> of_step(int64_t step) const;

 private:
  MappedFile file_;
  std::span<const std::byte> bytes_;  // of the whole file
  int64_t every_ = 1;
  std::vector<plan::TensorId> tensors_;
  std::map<int64_t, uint64_t> offsets_;  // by step
  size_t damaged_ = 0;
};

/// Which tensors of a program have fingerprints, and when they are taken.
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

}  // namespace flow::exec
