// A program around another one, for those that change only some of what it does.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/exec/core/backend.h"

namespace flow::exec {

/// Forwards what each call needs. Parts of shards are not forwarded: runs with them are refused
/// before a program is wrapped.
class WrappedProgram : public Program {
 public:
  explicit WrappedProgram(std::unique_ptr<Program> program) : program_(std::move(program)) {}

  const Program& holder() const override { return program_->holder(); }
  const MemoryReport& memory() const override { return program_->memory(); }
  int threads() const override { return program_->threads(); }
  void write_variable(plan::TensorId variable, const ArrayView& value) override {
    program_->write_variable(variable, value);
  }
  void read_variable(plan::TensorId variable, std::span<std::byte> into) const override {
    program_->read_variable(variable, into);
  }
  void connect() override { program_->connect(); }
  std::span<std::byte> input(plan::TensorId input, size_t slot) override {
    return program_->input(input, slot);
  }
  std::span<int64_t> rows(size_t slot) override { return program_->rows(slot); }
  void launch(const Call& call, size_t input_slot, size_t output_slot) override {
    program_->launch(call, input_slot, output_slot);
  }
  void wait(size_t output_slot) override { program_->wait(output_slot); }
  void wait_segment(size_t segment, size_t output_slot) override {
    program_->wait_segment(segment, output_slot);
  }
  std::span<const std::byte> delivered(plan::TensorId tensor, size_t output_slot) const override {
    return program_->delivered(tensor, output_slot);
  }
  std::optional<Fault> fault(size_t output_slot) const override {
    return program_->fault(output_slot);
  }
  std::vector<plan::TensorId> fingerprinted() const override { return program_->fingerprinted(); }
  std::span<const Fingerprint> fingerprints(size_t output_slot) const override {
    return program_->fingerprints(output_slot);
  }
  double fingerprint_seconds() const override { return program_->fingerprint_seconds(); }
  std::vector<TimedStep> timed_steps() const override { return program_->timed_steps(); }
  std::span<const int64_t> step_times(size_t output_slot) const override {
    return program_->step_times(output_slot);
  }

 protected:
  Program& wrapped() const { return *program_; }

 private:
  const std::unique_ptr<Program> program_;
};

}  // namespace flow::exec
