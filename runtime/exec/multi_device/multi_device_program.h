// A job function on two devices: a program for each part of it, whose segments are launched in
// turn.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/exec/core/backend.h"
#include "runtime/exec/multi_device/split.h"

namespace flow::exec {

class MultiDeviceProgram : public Program {
 public:
  /// `memory`: bytes_of the transfers.
  MultiDeviceProgram(const plan::Job& job, Split split, HostMemory memory);

  /// The host memory that transfers need: each has its own.
  static size_t bytes_of(const std::vector<Transfer>& transfers);

  // To be called in this order, for each device that has a part.
  bool has(plan::DeviceKind device) const { return !part(device).segments.empty(); }
  const Part& part(plan::DeviceKind device) const { return split_.parts[index_of(device)]; }
  PrepareOptions options_for(plan::DeviceKind device, const PrepareOptions& options) const;
  void set(plan::DeviceKind device, std::unique_ptr<Program> program);
  void begin(const plan::Job& job, const PrepareOptions& options);

  const MemoryReport& memory() const override { return report_; }
  int threads() const override;
  void write_variable(plan::TensorId variable, const ArrayView& value) override;
  void read_variable(plan::TensorId variable, std::span<std::byte> into) const override;
  std::span<std::byte> input(plan::TensorId input, size_t slot) override;
  std::span<int64_t> rows(size_t slot) override;
  void launch(const Call& call, size_t input_slot, size_t output_slot) override;
  void wait_segment(size_t segment, size_t output_slot) override;
  void wait(size_t output_slot) override;
  std::span<const std::byte> delivered(plan::TensorId tensor, size_t output_slot) const override;
  std::optional<Fault> fault(size_t output_slot) const override;
  std::vector<plan::TensorId> fingerprinted() const override { return fingerprinted_; }
  std::span<const Fingerprint> fingerprints(size_t output_slot) const override;
  double fingerprint_seconds() const override;
  std::vector<TimedStep> timed_steps() const override;
  std::span<const int64_t> step_times(size_t output_slot) const override;

 private:
  /// What is timed: a step of a program, or waiting for what it passes on.
  struct Timing {
    plan::DeviceKind device;
    std::optional<size_t> step;  // of that program's timed steps
  };
  /// A fingerprint among those of a program.
  struct Taken {
    plan::DeviceKind device;
    size_t at;
  };

  Program& program(plan::DeviceKind device) const { return *programs_[index_of(device)]; }
  /// Then the segments of a call are those of the job's loop.
  bool is_on_one_device() const { return split_.turns.size() == 1; }
  Program& only() const { return program(split_.turns[0].device); }
  Program& home_of(plan::TensorId tensor) const { return program(homes_[tensor.index()]); }
  void account();
  void plan_fingerprints(const plan::Job& job, size_t output_slots);
  void plan_timing(size_t output_slots);

  Split split_;
  std::vector<plan::DeviceKind> homes_;  // by tensor of the job
  size_t transferred_bytes_;
  HostMemory memory_;
  std::array<std::unique_ptr<Program>, kDeviceKinds> programs_;  // by DeviceKind
  MemoryReport report_;
  std::vector<plan::TensorId> fingerprinted_;                   // where it takes them
  std::vector<Taken> taken_;                                    // of each
  mutable std::vector<std::vector<Fingerprint>> fingerprints_;  // by output slot
  std::vector<TimedStep> timed_steps_;                          // where it profiles
  std::vector<Timing> timings_;                                 // of each
  std::vector<std::vector<int64_t>> awaited_;        // by output slot, by turn: when it began
  mutable std::vector<std::vector<int64_t>> times_;  // by output slot, as step_times
};

}  // namespace flow::exec
