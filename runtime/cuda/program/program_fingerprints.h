// The fingerprints that a call takes. They stay in device memory until the call is complete.
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

/// Returns which of the plan's tensors the job makes, either directly or as a version of them.
/// `tensors` is the number of tensors in the plan. REQUIRES: The tensors that ranks share have been
/// determined.
exec::FingerprintPlan plan_fingerprints(const PreparedJob& job, const exec::Collectives* ranks,
                                        size_t tensors);

/// Returns the number of bytes on the device.
size_t fingerprint_bytes(const exec::FingerprintPlan& plan);

/// Takes fingerprints. Each kernel of a step is followed by the kernels of its fingerprints, in the
/// same stream. One copy after a call's last step brings all of the call's fingerprints to the
/// host.
class ProgramFingerprints {
 public:
  /// Borrows the memory. REQUIRES: The addresses of all tensors are known.
  ProgramFingerprints(const PreparedJob& job, const ProgramMemory& memory);

  /// Clears the fingerprints; runs before the first ones of a call.
  void begin(const LaunchState& state) const;
  /// Takes the fingerprints of inputs and variables in the state in which a call finds them.
  /// `of_shards` selects the tensors of which each shard has a part; otherwise the remaining ones
  /// are taken.
  void take_found(bool of_shards, const LaunchState& state) const;
  /// Takes the fingerprints of the tensors that shards have combined.
  void take_combined(const LaunchState& state) const;
  /// Takes the fingerprints of the tensors that the steps [first, end) have made.
  void take_steps(size_t first, size_t end, const LaunchState& state) const;
  /// Copies the fingerprints to the host; runs after the last one of a call.
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
