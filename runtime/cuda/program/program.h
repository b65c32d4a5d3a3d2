// A prepared job function on a GPU. Calls are captured as graphs, which are launched whole. If the
// batch is cut into shards, one graph contains the steps of a shard and is launched once for each
// shard, and another graph contains the remaining steps. If ranks share the shards, the steps of a
// rank's last shard are also cut into several graphs: after each of them, sums are exchanged while
// the next graph runs. The remaining steps are cut likewise if ranks gather sums within them.
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
  /// The driver, the objects that the kernels' launches use, and the communicator outlive the
  /// program. `communicator` connects `options.ranks`; it is null if there is one rank.
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
  /// The set of results that a call requests, which is one of a few. Each form has a graph for
  /// every pair of slots that a call may have.
  struct Form {
    std::vector<uint8_t> wanted;     // indexed by deliverable
    bool fingerprints;               // true if the call takes fingerprints
    std::vector<OwnedGraph> graphs;  // indexed by input slot, then output slot, then part
  };
  struct Times {
    int64_t launched = 0;
    std::vector<int64_t> ends;  // see step_times
  };

  std::vector<std::byte*> addresses(std::span<const exec::SharedVariable> shared) const;
  static std::vector<std::byte*> addresses(std::span<const exec::TransferredTensor> transferred);
  void read_times(size_t output_slot);
  void capture_forms(std::vector<uint8_t> always);
  /// Returns true if calls put the part. Several ranks put part 0 only for the shards before a
  /// rank's last one, and put pieces instead of all other parts.
  bool launches(size_t part) const {
    return !ranks_ || part >= parts_ || (part == 0 && end_shard_ - first_shard_ > 1);
  }
  void capture_form(const std::vector<uint8_t>& wanted, bool fingerprints);
  OwnedGraph capture(size_t part, std::span<const uint8_t> wanted, size_t input_slot,
                     size_t output_slot);
  const Form& form_for(const exec::Call& call) const;
  /// Returns the number of input slots for which graphs differ. Shards receive their inputs before
  /// their graph is launched.
  size_t input_slots() const { return shards_ > 1 ? 1 : sizes_.input_slots; }
  const OutputLayout::Output& output_of(plan::TensorId tensor) const;
  std::optional<exec::Fault> found(size_t output_slot) const;
  /// Returns true if this rank has only a slice of the variable.
  bool is_sliced(plan::TensorId variable) const {
    return ranks_ && ranks_->slots().contains(variable);
  }
  void read_slot(plan::TensorId slot, std::span<std::byte> into) const;
  void copy_to_host(plan::TensorId variable, std::span<std::byte> into) const;
  /// Copies, and returns when the copy is done.
  void copy(void* to, const void* from, size_t bytes) const;
  /// Calls f, and adds the job's name to a RunError that it throws.
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
  std::string name_;  // such as "lenet.yaml:36:3: job `train`"
  exec::MemoryReport report_;
  const int64_t shards_;
  const int64_t first_shard_, end_shard_;  // the shards of this rank
  std::vector<exec::TensorInfo> tensors_;  // with the shapes of the whole batch
  std::vector<plan::TensorId> deliverables_;
  std::vector<plan::TensorId> fingerprinted_;
  Checks checks_;
  ProgramMemory::Sizes sizes_;
  OwnedStream stream_;
  size_t parts_;                  // the number of parts of a call
  size_t segments_;               // the number of segments of a call, as the executor counts them
  std::vector<OwnedEvent> done_;  // indexed by output slot, then segment
  KeptColumns columns_;
  ProgramMemory memory_;
  std::optional<ProgramRanks> ranks_;
  std::optional<GraphCapture> graph_capture_;  // set once the addresses of inputs are known
  std::vector<Form> forms_;                    // empty if calls are put step by step
  // Indexed by output slot; used if the program profiles.
  std::vector<Times> times_;
  int64_t last_end_ = 0;  // the end of the call that was read last
  int64_t fingerprinted_calls_ = 0;
  double fingerprint_seconds_ = 0;  // the seconds that one call takes for fingerprints
};

}  // namespace flow::cuda
