// Programs that wrap another program and change only some of its behavior.
#include "runtime/exec/run/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/base/philox.h"

namespace flow::exec {
namespace {

/// Forwards everything that a call needs, except parts of shards: runs with these are refused
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
  /// Returns true if no further pass is needed. A fault ends the call, too, because later passes
  /// would compute with meaningless numbers.
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

using Bytes = std::vector<std::byte>;

/// The positions of the batch's rows in a tensor. A row is `bytes` bytes; the rows appear `repeats`
/// times, once for each index of the axes before the batch axis.
struct RowLayout {
  RowLayout(const plan::Tensor& tensor, int64_t batch)
      : repeats(static_cast<size_t>(tensor.shape.elements(0, tensor.batch_axis))),
        bytes(
            static_cast<size_t>(tensor.shape[tensor.batch_axis] / batch *
                                tensor.shape.elements(tensor.batch_axis + 1, tensor.shape.rank())) *
            size_of(tensor.dtype)) {}

  size_t repeats, bytes;
};

/// A buffer for each slot of a tensor.
struct Buffer {
  RowLayout layout;
  std::vector<Bytes> slots;
};

[[noreturn]] void refuse(const plan::Job& job, std::string_view why, std::string hint) {
  throw RequestError(fmt::format("{}: --permute-rows: job `{}` {}", job.where, job.name, why),
                     std::move(hint));
}

/// Returns the number of rows of the batch. Rejects a job without rows, with batches of different
/// sizes, or that draws a random number for each row.
int64_t rows_of(const plan::Job& job) {
  int64_t batch = 0;
  for (const plan::Input& input : job.inputs) {
    const plan::Tensor& tensor = job[input.tensor];
    if (tensor.batch_axis < 0) continue;
    const int64_t rows = tensor.shape[tensor.batch_axis];
    if (batch != 0 && rows != batch) refuse(job, "has batches of two sizes", "give them one size");
    batch = rows;
  }
  if (batch == 0) refuse(job, "has no input with rows", "leave the flag out");
  for (const plan::Step& step : job.steps)
    if (step.attributes.has("consumer"))
      refuse(job, fmt::format("draws a number for each row in `{}`", step.name),
             "leave the flag out, or run a predict job");
  return batch;
}

class PermutedProgram : public WrappedProgram {
 public:
  PermutedProgram(const plan::Job& job, const PrepareOptions& options, uint64_t seed,
                  std::unique_ptr<Program> program)
      : WrappedProgram(std::move(program)), order_(static_cast<size_t>(rows_of(job))) {
    const int64_t batch = std::ssize(order_);
    draw_permutation({seed, "--permute-rows", 0}, order_.data(), batch);
    for (const plan::Input& input : job.inputs)
      if (job[input.tensor].batch_axis >= 0)
        add(inputs_, job, input.tensor, batch, options.input_slots);
    for (const plan::TensorId id : options.deliverables)
      if (job[id].batch_axis >= 0 && job[id].shape[job[id].batch_axis] % batch == 0)
        add(results_, job, id, batch, options.output_slots);
  }

  std::span<std::byte> input(plan::TensorId input, size_t slot) override {
    const auto found = inputs_.find(input);
    return found == inputs_.end() ? wrapped().input(input, slot)
                                  : std::span(found->second.slots[slot]);
  }

  void launch(const Call& call, size_t input_slot, size_t output_slot) override {
    for (const auto& [id, buffer] : inputs_) {
      const RowLayout& layout = buffer.layout;
      const std::byte* from = buffer.slots[input_slot].data();
      std::byte* to = wrapped().input(id, input_slot).data();
      for_rows(layout, [&](size_t here, size_t there) {
        std::memcpy(to + here, from + there, layout.bytes);
      });
    }
    wrapped().launch(call, input_slot, output_slot);
  }

  std::span<const std::byte> delivered(plan::TensorId tensor, size_t output_slot) const override {
    const std::span<const std::byte> from = wrapped().delivered(tensor, output_slot);
    const auto found = results_.find(tensor);
    if (found == results_.end()) return from;
    Bytes& to = found->second.slots[output_slot];
    for_rows(found->second.layout, [&](size_t here, size_t there) {
      std::memcpy(to.data() + there, from.data() + here, found->second.layout.bytes);
    });
    return to;
  }

  std::optional<Fault> fault(size_t output_slot) const override {
    std::optional<Fault> fault = wrapped().fault(output_slot);
    if (fault && fault->row >= 0 && fault->row < std::ssize(order_))
      fault->row = order_[static_cast<size_t>(fault->row)];
    return fault;
  }

 private:
  using Buffers = std::map<plan::TensorId, Buffer>;

  static void add(Buffers& buffers, const plan::Job& job, plan::TensorId id, int64_t batch,
                  size_t slots) {
    const plan::Tensor& tensor = job[id];
    buffers.try_emplace(
        id, Buffer{RowLayout(tensor, batch), {slots, Bytes(bytes_of(tensor.shape, tensor.dtype))}});
  }

  /// Calls move(here, there) for each row: its position in the program and its position in the
  /// data.
  template <typename Move>
  void for_rows(const RowLayout& layout, const Move& move) const {
    for (size_t repeat = 0; repeat < layout.repeats; ++repeat)
      for (size_t i = 0; i < order_.size(); ++i) {
        const size_t first = repeat * order_.size();
        move((first + i) * layout.bytes, (first + static_cast<size_t>(order_[i])) * layout.bytes);
      }
  }

  std::vector<int64_t> order_;  // the row of the data for each row of the program
  Buffers inputs_;
  mutable Buffers results_;  // mutable, because results are written only when they are read
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

std::unique_ptr<Program> permute_rows(const plan::Job& job, const PrepareOptions& options,
                                      uint64_t seed, std::unique_ptr<Program> program) {
  if (std::ranges::count(options.in_parts, 1) > 0)
    refuse(job, "delivers parts of shards", "leave the flag out, or return whole arrays");
  return std::make_unique<PermutedProgram>(*plan::UnshardedJob(job), options, seed,
                                           std::move(program));
}

}  // namespace flow::exec
