// The fingerprints that a call takes, on the device until the call is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/loops/fingerprint.h"
#include "runtime/cuda/program/passes.h"
#include "runtime/cuda/program/program_memory.h"
#include "runtime/exec/core/fingerprints.h"

namespace flow::cuda {

struct PreparedJob;

/// Which of the plan's tensors the job makes, itself or a version of them. `tensors`: of the plan.
/// REQUIRES: what ranks share is known.
exec::FingerprintPlan plan_fingerprints(const PreparedJob& job, const exec::Collectives* ranks,
                                        size_t tensors);

/// Bytes on the device.
size_t fingerprint_bytes(const exec::FingerprintPlan& plan);

/// Each kernel of a step is followed by those of its fingerprints, in the same stream. A call's
/// fingerprints come to the host in one copy, behind its last step.
class ProgramFingerprints {
 public:
  /// What lies where is known. Borrows the memory.
  ProgramFingerprints(const PreparedJob& job, const ProgramMemory& memory);

  /// Before a call's first ones.
  void begin(const LaunchState& state) const;
  /// Of inputs and variables as a call finds them: of what each shard has its own of, or of the
  /// rest.
  void take_found(bool of_shards, const LaunchState& state) const;
  /// Of what shards have combined.
  void take_combined(const LaunchState& state) const;
  /// Of what the steps [first, end) have made.
  void take_steps(size_t first, size_t end, const LaunchState& state) const;
  /// Behind the last one.
  void copy_to_host(size_t output_slot, const LaunchState& state) const;

 private:
  struct Tensor {
    FingerprintSource source;
    size_t at;
    bool of_shards;
  };
  using Tensors = std::vector<Tensor>;

  Tensors tensors_of(const PreparedJob& job, size_t step) const;
  void take(const Tensor& tensor, const LaunchState& state) const;

  const ProgramMemory& memory_;
  size_t count_;
  Fingerprint* made_;
  std::byte* workspace_;
  Tensors found_, combined_;
  std::vector<Tensors> of_steps_;
};

}  // namespace flow::cuda
