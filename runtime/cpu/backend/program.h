// A prepared job function on the CPU: kernels bound to memory, launched one after another.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/cpu/backend/bound_kernel.h"
#include "runtime/cpu/loops/parallel.h"
#include "runtime/exec/run/backend.h"
#include "runtime/exec/run/memory.h"

namespace flow::cpu {

/// Zero-filled or fresh bytes on a 64-byte boundary.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  /// RunError when the system has no more.
  AlignedBytes(size_t bytes, bool zero);
  std::byte* data() const { return bytes_.get(); }
  /// For std::free.
  std::byte* release() { return bytes_.release(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

/// Host memory, allocated once; calls run on the thread that launches them, and its Workers.
class CpuProgram : public exec::Program {
 public:
  /// `kernels`: one for each step of the job. Calls that are cut into segments go through them in
  /// order.
  CpuProgram(const plan::Job& job, const exec::PrepareOptions& options,
             std::span<const Layout> layouts, std::vector<BoundKernel> kernels,
             exec::MemoryPlan memory, std::span<const exec::SharedVariable> shared, int threads);

  const exec::MemoryReport& memory() const override { return report_; }
  int threads() const override { return threads_; }
  void write_variable(plan::TensorId variable, const ArrayView& value) override;
  void read_variable(plan::TensorId variable, std::span<std::byte> into) const override;
  std::span<std::byte> input(plan::TensorId input, size_t slot) override;
  void launch(const exec::Call& call, size_t input_slot, size_t output_slot) override;
  void wait(size_t) override {}
  std::span<const std::byte> delivered(plan::TensorId tensor, size_t output_slot) const override;
  std::optional<exec::Fault> fault(size_t output_slot) const override {
    return faults_[output_slot];
  }
  std::vector<exec::TimedStep> timed_steps() const override { return timed_steps_; }
  std::span<const int64_t> step_times(size_t output_slot) const override {
    return times_[output_slot];
  }

 private:
  struct BoundAction {
    Launch launch;
    std::vector<std::byte*> inputs, outputs;
    std::vector<std::vector<std::byte*>> epilogue;
    std::vector<std::span<std::byte* const>> epilogue_spans;
    std::byte* workspace = nullptr;
  };
  /// A tensor to be copied out where Call::wanted[index] says so.
  struct CopyOut {
    size_t index;
    plan::TensorId tensor;
    size_t offset;  // in an output slot
  };
  struct BoundStep {
    std::vector<BoundAction> actions;
    std::vector<CopyOut> deliveries;
    bool probe = false;
    std::vector<size_t> wanted_by;  // of a probe: the deliverables that need it
  };
  /// A pointer into the inputs, set anew for each slot.
  struct InputPointer {
    std::byte** pointer;
    size_t offset;
  };

  template <bool kTimed>
  void launch_steps(const exec::Call& call, size_t input_slot, size_t output_slot);
  std::byte* address(plan::TensorId tensor, size_t input_slot) const;
  void bind(std::vector<BoundKernel> kernels, const std::vector<size_t>& workspaces);
  std::vector<std::byte*> bind(const std::vector<Operand>& operands, std::byte* workspace) const;
  void prepare_timing(const plan::Job& job, std::span<const BoundKernel> kernels);
  void collect_input_pointers(const BoundKernel& kernel, BoundStep& bound);
  void plan_deliveries(const plan::Job& job, const exec::PrepareOptions& options);
  void deliver(const std::vector<CopyOut>& deliveries, const exec::Call& call, size_t input_slot,
               size_t output_slot) const;

  int threads_;
  Workers workers_;
  exec::MemoryReport report_;
  std::vector<exec::TensorInfo> tensors_;
  std::vector<Layout> layouts_;              // by tensor
  size_t input_stride_, output_stride_ = 0;  // bytes of one slot
  AlignedBytes variables_, inputs_, outputs_, arena_;
  std::vector<BoundStep> steps_;
  std::vector<InputPointer> input_pointers_;
  std::vector<CopyOut> early_;  // inputs and variables: before the first step
  std::vector<std::pair<plan::TensorId, size_t>> output_offsets_;
  std::vector<std::optional<exec::Fault>> faults_;  // by output slot
  std::vector<std::byte*> shared_;                  // variables of other programs
  std::vector<std::byte*> transferred_;             // tensors that go to or come from other devices
  std::vector<size_t> segments_;                    // the step behind the last of each
  std::vector<exec::TimedStep> timed_steps_;        // where it profiles
  std::vector<std::vector<int64_t>> times_;         // by output slot
};

}  // namespace flow::cpu
