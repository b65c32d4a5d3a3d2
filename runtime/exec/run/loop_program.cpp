// The passes of a call.
#include "runtime/exec/run/loop_program.h"

#include <algorithm>
#include <utility>

namespace flow::exec {
namespace {

enum LoopPart : size_t { kBefore, kPass, kAfter };

class LoopProgram : public Program {
 public:
  LoopProgram(const plan::Job& job, std::unique_ptr<Program> program)
      : loop_(*job.loop), parts_(segments_of(job).size()), program_(std::move(program)) {}

  const Program& holder() const override { return program_->holder(); }
  const MemoryReport& memory() const override { return program_->memory(); }
  int threads() const override { return program_->threads(); }
  void write_variable(plan::TensorId variable, const ArrayView& value) override {
    program_->write_variable(variable, value);
  }
  void read_variable(plan::TensorId variable, std::span<std::byte> into) const override {
    program_->read_variable(variable, into);
  }
  std::span<std::byte> input(plan::TensorId input, size_t slot) override {
    return program_->input(input, slot);
  }
  std::span<int64_t> rows(size_t slot) override { return program_->rows(slot); }

  void launch(const Call& call, size_t input_slot, size_t output_slot) override {
    const auto launch_part = [&](LoopPart part) {
      Call of_part = call;
      of_part.segment = part;
      program_->launch(of_part, input_slot, output_slot);
    };
    launch_part(kBefore);
    for (int64_t pass = 0; pass < loop_.passes; ++pass) {
      launch_part(kPass);
      if (ends_after_pass(output_slot)) break;
    }
    if (parts_ > kAfter) launch_part(kAfter);
  }

  void wait(size_t output_slot) override { program_->wait(output_slot); }
  std::span<const std::byte> delivered(plan::TensorId tensor, size_t output_slot) const override {
    return program_->delivered(tensor, output_slot);
  }
  std::optional<Fault> fault(size_t output_slot) const override {
    return program_->fault(output_slot);
  }

 private:
  /// A fault ends the call, too: what follows computes on numbers that mean nothing.
  bool ends_after_pass(size_t output_slot) {
    if (!loop_.until.valid()) return false;
    program_->wait_segment(kPass, output_slot);
    return program_->fault(output_slot) ||
           std::ranges::all_of(program_->delivered(loop_.until, output_slot),
                               [](std::byte value) { return value != std::byte{0}; });
  }

  const plan::Loop loop_;
  const size_t parts_;
  const std::unique_ptr<Program> program_;
};

}  // namespace

std::vector<size_t> segments_of(const plan::Job& job) {
  std::vector<size_t> ends = {job.loop->first.index(), job.loop->end.index()};
  if (ends.back() < job.steps.size()) ends.push_back(job.steps.size());
  return ends;
}

std::unique_ptr<Program> make_loop(const plan::Job& job, std::unique_ptr<Program> program) {
  return std::make_unique<LoopProgram>(job, std::move(program));
}

}  // namespace flow::exec
