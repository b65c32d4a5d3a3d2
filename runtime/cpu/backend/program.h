// A prepared job function on the CPU, whose kernels are bound to memory and launched one after
// another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/index_maps.h"
#include "runtime/cpu/backend/bound_kernel.h"
#include "runtime/cpu/backend/fingerprint.h"
#include "runtime/cpu/backend/sums.h"
#include "runtime/cpu/loops/parallel.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/memory.h"
#include "runtime/exec/core/profile.h"
#include "runtime/exec/ranks/rank_outputs.h"

namespace flow::cpu {

/// Measures times as in Program::step_times for each output slot. A clock without slots measures
/// nothing.
class StepClock {
 public:
  StepClock() = default;
  /// `adds` states that a step may run several times in a call, so that the durations of its runs
  /// are added.
  StepClock(size_t slots, size_t steps, bool adds)
      : adds_(adds), times_(slots, std::vector<int64_t>(steps + 1)) {}

  void begin(size_t slot) {
    if (times_.empty()) return;
    std::ranges::fill(times_[slot], 0);
    times_[slot][0] = last_ = exec::Profile::now();
  }
  void stamp(size_t slot, size_t step, bool ran) {
    if (times_.empty()) return;
    std::vector<int64_t>& times = times_[slot];
    const int64_t now = ran ? exec::Profile::now() : adds_ ? last_ : times[step];
    times[step + 1] = adds_ ? times[step + 1] + now - last_ : now;
    last_ = now;
  }
  void end(size_t slot) {
    if (times_.empty() || !adds_) return;
    std::partial_sum(times_[slot].begin(), times_[slot].end(), times_[slot].begin());
  }
  std::span<const int64_t> times(size_t slot) const { return times_[slot]; }

 private:
  bool adds_ = false;
  std::vector<std::vector<int64_t>> times_;  // durations until the call ends, if `adds_` is set
  int64_t last_ = 0;                         // the time of the last stamp
};

/// Zero-filled or uninitialized bytes on a 64-byte boundary.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  /// Throws RunError if the system has no memory left.
  AlignedBytes(size_t bytes, bool zero);
  std::byte* data() const { return bytes_.get(); }
  /// Returns the bytes, which the caller must pass to std::free.
  std::byte* release() { return bytes_.release(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

/// The program's memory is host memory that is allocated once. Calls run on the thread that
/// launches them and on its Workers. If the batch is cut, the steps of shards run once for each
/// shard and read its rows in place from the inputs. If there are several ranks, each has some of
/// the shards. Steps after those of shards run on all ranks with the same values, except for
/// updates that the ranks divide: each rank runs its slice of them, and then the variables are
/// gathered. Rank 0 receives the deliveries of all shards.
class CpuProgram : public exec::Program {
 public:
  /// `kernels` contains one kernel for each step of the job. Calls that are cut into segments run
  /// them in order. `sums` are stored at the end of the arena, which has room for them.
  CpuProgram(const plan::Job& job, const exec::PrepareOptions& options,
             std::span<const Layout> layouts, std::vector<BoundKernel> kernels,
             exec::MemoryPlan memory, std::span<const exec::SharedVariable> shared, Sums sums,
             int threads);

  const exec::MemoryReport& memory() const override { return report_; }
  int threads() const override { return threads_; }
  void write_variable(plan::TensorId variable, const ArrayView& value) override;
  void read_variable(plan::TensorId variable, std::span<std::byte> into) const override;
  std::span<std::byte> input(plan::TensorId input, size_t slot) override;
  void launch(const exec::Call& call, size_t input_slot, size_t output_slot) override;
  void wait(size_t) override {}
  std::span<const std::byte> delivered(plan::TensorId tensor, size_t output_slot) const override;
  std::span<const std::byte> delivered_part(plan::TensorId tensor, int64_t shard,
                                            size_t output_slot) const override;
  std::optional<exec::Fault> fault(size_t output_slot) const override {
    return faults_[output_slot];
  }
  std::vector<plan::TensorId> fingerprinted() const override { return fingerprints_.tensors(); }
  std::span<const Fingerprint> fingerprints(size_t output_slot) const override {
    return fingerprints_.taken(output_slot);
  }
  double fingerprint_seconds() const override { return fingerprints_.seconds(); }
  std::vector<exec::TimedStep> timed_steps() const override { return timed_steps_; }
  std::span<const int64_t> step_times(size_t output_slot) const override {
    return clock_.times(output_slot);
  }

 private:
  struct BoundAction {
    Launch launch;
    std::vector<std::byte*> inputs, outputs;
    std::vector<std::vector<std::byte*>> epilogue;
    std::vector<std::span<std::byte* const>> epilogue_spans;
    std::byte* workspace = nullptr;
  };
  /// A tensor that is copied out if Call::wanted[index] is set.
  struct CopyOut {
    size_t index;
    plan::TensorId tensor;
    size_t offset;     // offset in an output slot
    WholeIndex place;  // the place of a shard's elements there
  };
  struct BoundStep {
    std::vector<BoundAction> actions;
    std::vector<CopyOut> deliveries;
    size_t first_sum = 0, end_sum = 0;           // the entries of the sums that it makes
    const exec::SlicedUpdate* update = nullptr;  // the update that it performs, if it is sliced
    bool probe = false;
    std::vector<size_t> wanted_by;  // the deliverables that need a probe
  };
  /// A pointer into the inputs, which is updated for each slot and shard.
  struct InputPointer {
    std::byte** pointer;
    size_t offset, shard_bytes;
  };
  /// A tensor in an output slot.
  struct Output {
    plan::TensorId tensor;
    size_t offset, bytes;
    // The offset of the first shard's part, if parts are requested.
    std::optional<size_t> parts = {};
  };
  /// The part of a call that is running, for one shard.
  struct Turn {
    const exec::Call& call;
    size_t input_slot, output_slot;
    int64_t shard = 0;
  };

  std::byte* address(plan::TensorId tensor, size_t input_slot = 0, int64_t shard = 0) const;
  void use_sums();
  void use_division();
  void bind(std::vector<BoundKernel> kernels, const std::vector<size_t>& workspaces);
  std::vector<std::byte*> bind(const std::vector<Operand>& operands, std::byte* workspace);
  void place_tensors(const plan::Job& job, const std::vector<exec::Place>& places);
  void prepare_timing(const plan::Job& job, std::span<const BoundKernel> kernels);
  void plan_deliveries(const plan::Job& job, const exec::PrepareOptions& options);
  void plan_delivery(const plan::Job& job, size_t index, plan::TensorId id, size_t maker,
                     bool in_parts);
  const Output& output_of(plan::TensorId tensor) const;
  bool is_sliced(plan::TensorId variable) const { return slots_ && slots_->contains(variable); }
  void read_slot(plan::TensorId id, std::span<std::byte> into) const;

  void plan_fingerprints(const plan::Job& job, const exec::PrepareOptions& options);
  exec::FingerprintPlan::Part fingerprinted_part(size_t step, plan::TensorId id) const;
  exec::FingerprintPlan::Part summed_part(plan::TensorId id) const;
  void take_fingerprints(std::span<const ProgramFingerprints::Entry> entries, const Turn& turn);
  void begin(const Turn& turn);
  void point_to_inputs(const Turn& turn);
  void run_shards(const Turn& turn);
  bool runs(size_t step, const exec::Call& call) const;
  void run_steps(size_t first, size_t end, const Turn& turn);
  void combine(const Turn& turn);
  void add_totals(size_t step, const Turn& turn);
  void finish_sums(const Turn& turn);
  void finish_updates(const Turn& turn);
  void gather_outputs(const Turn& turn);
  void deliver(const std::vector<CopyOut>& deliveries, const Turn& turn) const;
  void copy_out(const CopyOut& delivery, const Turn& turn) const;
  size_t timed_index(size_t step) const;

  int threads_;
  Workers workers_;
  exec::MemoryReport report_;
  const int64_t shards_;
  // The first steps, which run once for each shard; 0 if the batch is not cut.
  const size_t shard_steps_;
  exec::Collectives* const ranks_;         // null if there is one rank
  const int64_t first_shard_, end_shard_;  // the shards of this rank
  Sums sums_;
  // The variable of a divided gradient, indexed by entry of the sums.
  std::vector<plan::TensorId> updated_;
  std::optional<exec::SlicedSlots> slots_;  // set if there are several ranks
  std::vector<exec::TensorInfo> tensors_;   // inputs are those of the whole batch
  // Indexed by tensor: for a tensor in the inputs, the bytes of a shard's rows.
  std::vector<size_t> shard_bytes_;
  std::vector<Layout> layouts_;              // indexed by tensor
  size_t input_stride_, output_stride_ = 0;  // bytes of one slot
  AlignedBytes variables_, inputs_, outputs_, arena_;
  std::vector<BoundStep> steps_;
  std::vector<InputPointer> input_pointers_;
  std::vector<CopyOut> early_;   // inputs and variables, delivered before the first step
  std::vector<CopyOut> wholes_;  // combined tensors, delivered after the last shard
  std::vector<Output> delivered_;
  std::optional<exec::RankOutputs> ranked_;         // set if there are several ranks
  std::vector<plan::TensorId> streamed_;            // inputs that rank 0 reads for all ranks
  std::vector<std::optional<exec::Fault>> faults_;  // indexed by output slot
  std::vector<std::byte*> shared_;                  // variables of other programs
  // Tensors that are transferred to or from other devices.
  std::vector<std::byte*> transferred_;
  std::vector<size_t> segments_;              // the step after the last one of each segment
  std::vector<exec::TimedStep> timed_steps_;  // set if the program profiles
  StepClock clock_;
  ProgramFingerprints fingerprints_;                         // empty if no fingerprints are taken
  std::optional<exec::RankFingerprints> rank_fingerprints_;  // set if there are several ranks
};

}  // namespace flow::cpu
