// A prepared job function on a GPU: calls are captured graphs, launched whole. Where the batch is
// cut, one graph has the steps of a shard and is launched once a shard; another has the rest. Where
// ranks share the shards, the steps of the last shard of a rank are cut into graphs, too: behind
// each, sums are exchanged while the next one runs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/cuda/program/graph_capture.h"
#include "runtime/exec/ranks/rank_outputs.h"

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
  std::vector<exec::TimedStep> timed_steps() const override {
    return graph_capture_->timed_steps();
  }
  std::span<const int64_t> step_times(size_t output_slot) const override {
    return times_[output_slot].ends;
  }

 private:
  /// What a call is asked for is chosen among few forms, each a graph for every pair of slots that
  /// a call may have.
  struct Form {
    std::vector<uint8_t> wanted;     // by deliverable
    std::vector<OwnedGraph> graphs;  // by input slot, then output slot, then part
  };
  struct Times {
    int64_t launched = 0;
    std::vector<int64_t> ends;  // as step_times
  };
  /// Of several ranks, which run one call at a time.
  struct OfRanks {
    exec::Collectives& ranks;
    Communicator& communicator;
    RankSums sums;
    exec::RankOutputs outputs;
    std::vector<plan::TensorId> streamed;            // inputs that rank 0 reads for all
    std::vector<std::optional<exec::Fault>> faults;  // by output slot
    std::vector<uint8_t> wanted;                     // in the call
    bool calling = false;
  };

  std::vector<std::byte*> addresses(std::span<const exec::SharedVariable> shared) const;
  static std::vector<std::byte*> addresses(std::span<const exec::TransferredTensor> transferred);
  void add_ranks(const PreparedJob& job, const exec::PrepareOptions& options,
                 Communicator& communicator);
  void read_times(size_t output_slot);
  void capture_forms(std::vector<uint8_t> always);
  /// Of the last shard of a rank the pieces are launched, which is all where it has one shard.
  bool launches(size_t part) const {
    return part > 0 || !of_ranks_ || end_shard_ - first_shard_ > 1;
  }
  OwnedGraph capture(size_t part, std::span<const uint8_t> wanted, size_t input_slot,
                     size_t output_slot);
  const Form& form_for(std::span<const uint8_t> wanted) const;
  /// With which graphs differ. Shards get their inputs before their graph.
  size_t input_slots() const { return shards_ > 1 ? 1 : sizes_.input_slots; }
  const OutputLayout::Output& output_of(plan::TensorId tensor) const;
  std::optional<exec::Fault> fault_found(size_t output_slot) const;
  void finish_on_ranks(size_t output_slot);
  void start(const exec::Call& call, size_t input_slot, size_t output_slot);
  void put_shards(const exec::Call& call, size_t input_slot, size_t output_slot);
  void put_shard(bool last, const exec::Call& call, size_t input_slot, size_t output_slot);
  void put(size_t part, const exec::Call& call, size_t input_slot, size_t output_slot);

  Driver& driver_;
  std::string name_;  // "lenet.yaml:36:3: job `train`"
  exec::MemoryReport report_;
  const int64_t shards_;
  const int64_t first_shard_, end_shard_;  // of this rank
  std::vector<exec::TensorInfo> tensors_;  // of the whole batch
  std::vector<plan::TensorId> deliverables_;
  Checks checks_;
  ProgramMemory::Sizes sizes_;
  OwnedStream stream_;
  size_t parts_;                  // of a call
  size_t segments_;               // likewise, as the executor knows them
  std::vector<OwnedEvent> done_;  // by output slot, then segment
  KeptColumns columns_;
  ProgramMemory memory_;
  std::optional<OfRanks> of_ranks_;
  std::optional<GraphCapture> graph_capture_;  // once it is known where inputs lie
  std::vector<Form> forms_;                    // none: calls are put step by step
  std::vector<Times> times_;                   // by output slot, where it profiles
  int64_t last_end_ = 0;                       // of the call that was read last
};

}  // namespace flow::cuda
