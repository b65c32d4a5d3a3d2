// The passes of a call.
#include "runtime/exec/run/loop_program.h"

#include <algorithm>
#include <utility>

#include "runtime/exec/run/wrapped_program.h"

namespace flow::exec {
namespace {

enum LoopPart : size_t { kBefore, kPass, kAfter };

class LoopProgram : public WrappedProgram {
 public:
  LoopProgram(const plan::Job& job, std::unique_ptr<Program> program)
      : WrappedProgram(std::move(program)), loop_(*job.loop), parts_(segments_of(job).size()) {}

  void launch(const Call& call, size_t input_slot, size_t output_slot) override {
    const auto launch_part = [&](LoopPart part, int64_t pass = 0) {
      Call of_part = call;
      of_part.segment = part;
      of_part.pass = pass;
      wrapped().launch(of_part, input_slot, output_slot);
    };
    launch_part(kBefore);
    for (int64_t pass = 0; pass < loop_.passes; ++pass) {
      launch_part(kPass, pass);
      if (ends_after_pass(output_slot)) break;
    }
    if (parts_ > kAfter) launch_part(kAfter);
  }

 private:
  /// A fault ends the call, too: what follows computes on numbers that mean nothing.
  bool ends_after_pass(size_t output_slot) {
    if (!loop_.until.valid()) return false;
    wrapped().wait_segment(kPass, output_slot);
    return wrapped().fault(output_slot) ||
           std::ranges::all_of(wrapped().delivered(loop_.until, output_slot),
                               [](std::byte value) { return value != std::byte{0}; });
  }

  const plan::Loop loop_;
  const size_t parts_;
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
