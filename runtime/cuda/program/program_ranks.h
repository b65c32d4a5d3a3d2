// What a program does together with those of other ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cuda/program/graph_capture.h"
#include "runtime/exec/ranks/rank_outputs.h"

namespace flow::cuda {

/// Ranks run one call at a time.
class ProgramRanks {
 public:
  /// The driver, the communicator, `options.ranks` and the memory outlive it.
  ProgramRanks(Driver& driver, Communicator& communicator, const PreparedJob& job,
               const exec::PrepareOptions& options, const ProgramMemory& memory);

  bool leads() const { return ranks_.rank() == 0; }
  RankSums& sums() { return sums_; }
  const exec::SlicedSlots& slots() const { return slots_; }
  /// Inputs that rank 0 reads for all.
  std::span<const plan::TensorId> streamed() const { return streamed_; }

  /// All ranks together, before the first call. REQUIRES: the stream is idle.
  void connect(Stream stream);
  void begin(const exec::Call& call);
  /// The bytes of rank 0 become those of all.
  void share(std::span<std::byte> bytes);
  void wait(Event event) { communicator_.wait(event); }
  /// What shards deliver, and fingerprints, come to the output slot of rank 0, and faults to all.
  /// `found`: by this rank. A call that is finished already is left alone.
  void finish(const ProgramMemory& memory, size_t output_slot,
              const std::optional<exec::Fault>& found);
  const std::optional<exec::Fault>& fault(size_t output_slot) const { return faults_[output_slot]; }
  /// Ends a call that is under way: other ranks may be gone.
  void give_up() noexcept;

 private:
  exec::Collectives& ranks_;
  Communicator& communicator_;
  RankSums sums_;
  exec::RankOutputs outputs_;
  exec::SlicedSlots slots_;
  std::vector<plan::TensorId> streamed_;
  std::vector<std::optional<exec::Fault>> faults_;      // by output slot
  std::vector<uint8_t> wanted_;                         // in the call
  std::optional<exec::RankFingerprints> fingerprints_;  // where the program takes them
  bool calling_ = false, takes_fingerprints_ = false;   // the call
};

}  // namespace flow::cuda
