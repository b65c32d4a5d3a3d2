// The work that a program does together with the programs of other ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cuda/program/graph_capture.h"
#include "runtime/exec/ranks/rank_outputs.h"

namespace flow::cuda {

/// The ranks of a program, which run one call at a time.
class ProgramRanks {
 public:
  /// The driver, the communicator, `options.ranks` and the memory outlive this object.
  ProgramRanks(Driver& driver, Communicator& communicator, const PreparedJob& job,
               const exec::PrepareOptions& options, const ProgramMemory& memory);

  bool leads() const { return ranks_.rank() == 0; }
  RankSums& sums() { return sums_; }
  const exec::SlicedSlots& slots() const { return slots_; }
  /// Returns the inputs that rank 0 reads for all ranks.
  std::span<const plan::TensorId> streamed() const { return streamed_; }

  /// Connects the ranks. All ranks call it together before the first call. REQUIRES: The stream is
  /// idle.
  void connect(Stream stream);
  void begin(const exec::Call& call);
  /// Copies the bytes of rank 0 to all other ranks.
  void share(std::span<std::byte> bytes);
  void wait(Event event) { communicator_.wait(event); }
  /// Collects the deliveries of shards and the fingerprints in the output slot of rank 0, and
  /// shares faults with all ranks. `found` is the fault that this rank found. Does nothing if the
  /// call is already finished.
  void finish(const ProgramMemory& memory, size_t output_slot,
              const std::optional<exec::Fault>& found);
  const std::optional<exec::Fault>& fault(size_t output_slot) const { return faults_[output_slot]; }
  /// Aborts a pending call, because other ranks may have ended.
  void give_up() noexcept;

 private:
  exec::Collectives& ranks_;
  Communicator& communicator_;
  RankSums sums_;
  exec::RankOutputs outputs_;
  exec::SlicedSlots slots_;
  std::vector<plan::TensorId> streamed_;
  std::vector<std::optional<exec::Fault>> faults_;  // indexed by output slot
  // Indexed by deliverable, for the current call.
  std::vector<uint8_t> wanted_;
  std::optional<exec::RankFingerprints> fingerprints_;  // set if the program takes fingerprints
  bool calling_ = false, takes_fingerprints_ = false;   // state of the current call
};

}  // namespace flow::cuda
