// A prepared job function on a GPU: calls are captured graphs, launched whole. Where the batch is
// cut, one graph has the steps of a shard and is launched once a shard; another has the rest. Where
// ranks share the shards, the steps of the last shard of a rank are cut into graphs, too: behind
// each, sums are exchanged while the next one runs. So is the rest where ranks gather sums within.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/cuda/program/graph_capture.h"
#include "runtime/cuda/program/program_ranks.h"

namespace flow::cuda {

class CudaProgram : public exec::Program {
 public:
  /// The driver, what the kernels launch and the communicator outlive the program.
  /// `communicator`: of `options.ranks`; null where there is one rank.
  CudaProgram(Driver& driver, PreparedJob job, exec::MemoryReport report,
              const exec::PrepareOptions& options, bool keep_columns, Communicator* communicator);
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;
  ~CudaProgram() override;

  const exec::MemoryReport& memory() const override { return report_; }
  int threads() const override { return 1; }
  void write_variable(plan::TensorId variable, const ArrayView& value) override;
  void read_variable(plan::TensorId variable, std::span<std::byte> into) const override;
  std::span<std::byte> input(plan::TensorId input, size_t slot) override;
  std::span<int64_t> rows(size_t slot) override { return memory_.rows(slot); }
  void connect() override;
  void launch(const exec::Call& call, size_t input_slot, size_t output_slot) override;
  void wait(size_t output_slot) override { wait_segment(segments_ - 1, output_slot); }
  void wait_segment(size_t segment, size_t output_slot) override;
  std::span<const std::byte> delivered(plan::TensorId tensor, size_t output_slot) const override;
  std::span<const std::byte> delivered_part(plan::TensorId tensor, int64_t shard,
                                            size_t output_slot) const override;
  std::optional<exec::Fault> fault(size_t output_slot) const override;
  std::vector<plan::TensorId> fingerprinted() const override { return fingerprinted_; }
  std::span<const Fingerprint> fingerprints(size_t output_slot) const override {
    return memory_.fingerprints(output_slot);
  }
  double fingerprint_seconds() const override {
    return static_cast<double>(fingerprinted_calls_) * fingerprint_seconds_;
  }
  std::vector<exec::TimedStep> timed_steps() const override {
    return graph_capture_->times().steps();
  }
  std::span<const int64_t> step_times(size_t output_slot) const override {
    return times_[output_slot].ends;
  }

 private:
  /// What a call is asked for is chosen among few forms, each a graph for every pair of slots that
  /// a call may have.
  struct Form {
    std::vector<uint8_t> wanted;     // by deliverable
    bool fingerprints;               // takes them
    std::vector<OwnedGraph> graphs;  // by input slot, then output slot, then part
  };
  struct Times {
    int64_t launched = 0;
    std::vector<int64_t> ends;  // as step_times
  };

  std::vector<std::byte*> addresses(std::span<const exec::SharedVariable> shared) const;
  static std::vector<std::byte*> addresses(std::span<const exec::TransferredTensor> transferred);
  void read_times(size_t output_slot);
  void capture_forms(std::vector<uint8_t> always);
  /// Several ranks launch the steps of shards before their last one, and then pieces.
  bool launches(size_t part) const {
    return !ranks_ || part >= parts_ || (part == 0 && end_shard_ - first_shard_ > 1);
  }
  void capture_form(const std::vector<uint8_t>& wanted, bool fingerprints);
  OwnedGraph capture(size_t part, std::span<const uint8_t> wanted, size_t input_slot,
                     size_t output_slot);
  const Form& form_for(const exec::Call& call) const;
  /// With which graphs differ. Shards get their inputs before their graph.
  size_t input_slots() const { return shards_ > 1 ? 1 : sizes_.input_slots; }
  const OutputLayout::Output& output_of(plan::TensorId tensor) const;
  std::optional<exec::Fault> found(size_t output_slot) const;
  /// Has this rank a slice of the variable alone?
  bool is_sliced(plan::TensorId variable) const {
    return ranks_ && ranks_->slots().contains(variable);
  }
  void read_slot(plan::TensorId slot, std::span<std::byte> into) const;
  void copy_to_host(plan::TensorId variable, std::span<std::byte> into) const;
  /// Returns when it is done.
  void copy(void* to, const void* from, size_t bytes) const;
  /// Calls f; a RunError of it names the job.
  template <typename F>
  void in_job(F f) const {
    try {
      f();
    } catch (const RunError& error) {
      throw error.at(name_);
    }
  }
  void start(const exec::Call& call, size_t input_slot, size_t output_slot);
  void put_shards(const exec::Call& call, size_t input_slot, size_t output_slot);
  void put_shard(bool last, const exec::Call& call, size_t input_slot, size_t output_slot);
  void put_pieces(size_t first, size_t end, const exec::Call& call, size_t input_slot,
                  size_t output_slot);
  void put(size_t part, const exec::Call& call, size_t input_slot, size_t output_slot);

  Driver& driver_;
  std::string name_;  // "lenet.yaml:36:3: job `train`"
  exec::MemoryReport report_;
  const int64_t shards_;
  const int64_t first_shard_, end_shard_;  // of this rank
  std::vector<exec::TensorInfo> tensors_;  // of the whole batch
  std::vector<plan::TensorId> deliverables_;
  std::vector<plan::TensorId> fingerprinted_;
  Checks checks_;
  ProgramMemory::Sizes sizes_;
  OwnedStream stream_;
  size_t parts_;                  // of a call
  size_t segments_;               // likewise, as the executor knows them
  std::vector<OwnedEvent> done_;  // by output slot, then segment
  KeptColumns columns_;
  ProgramMemory memory_;
  std::optional<ProgramRanks> ranks_;
  std::optional<GraphCapture> graph_capture_;  // once it is known where inputs lie
  std::vector<Form> forms_;                    // none: calls are put step by step
  std::vector<Times> times_;                   // by output slot, where it profiles
  int64_t last_end_ = 0;                       // of the call that was read last
  int64_t fingerprinted_calls_ = 0;
  double fingerprint_seconds_ = 0;  // of a call
};

}  // namespace flow::cuda
