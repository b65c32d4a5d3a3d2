// A backend that forwards all calls to another one, except for one planted defect.
#include "runtime/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/exec/core/state.h"
#include "runtime/io/elements.h"
#include "runtime/plan/model/shards.h"

namespace flow::verify {
namespace {

using plan::TensorId;

constexpr std::array kDamages = {
    DamageInfo{DamageKind::kSlot, "slot", "an optimizer slot returns to its initial value"},
    DamageInfo{DamageKind::kStep, "step", "the step is one too large"},
    DamageInfo{DamageKind::kDataPosition, "position", "each step reads the batch before its own"},
    DamageInfo{DamageKind::kSeed, "seed", "the seed is another one"},
    DamageInfo{DamageKind::kMovingMean, "moving",
               "a moving statistic returns to its initial value"},
    DamageInfo{DamageKind::kLossScale, "loss-scale", "the dynamic loss scale is halved"},
    DamageInfo{DamageKind::kBit, "bit", "one bit of one tensor is flipped"},
    DamageInfo{DamageKind::kGradient, "gradient", "a gradient is 0.1 % too large"}};

/// Returns the index of the element with the largest finite magnitude.
size_t largest_of(const ArrayView& array) {
  return io::visit_elements(array, [](auto elements) {
    size_t best = 0;
    double largest = -1;
    for (size_t i = 0; i < elements.size(); ++i) {
      const double size = std::abs(static_cast<double>(elements[i]));
      if (std::isfinite(size) && size > largest) {
        largest = size;
        best = i;
      }
    }
    return best;
  });
}

/// Flips the lowest bit of the largest element, which is the smallest possible change.
void flip_bit(DType dtype, const Shape& shape, std::span<std::byte> bytes) {
  if (bytes.empty()) return;
  bytes[largest_of({dtype, shape, bytes.data()}) * size_of(dtype)] ^= std::byte{1};
}

/// Returns true if the variable is a moving statistic, which a layer updates in each call.
bool is_moved(const plan::Job& job, TensorId variable) {
  return std::ranges::any_of(job.steps, [&](const plan::Step& step) {
    const auto& results = step.op->results;
    for (size_t i = 0; i < std::min(results.size(), step.outputs.size()); ++i)
      if (results[i].moves && *results[i].moves < step.inputs.size() &&
          step.inputs[*results[i].moves] == variable)
        return true;
    return false;
  });
}

class DamagedProgram final : public exec::Program {
 public:
  DamagedProgram(const plan::Job& job, const Damage& damage, std::string& done)
      : job_(job), damage_(damage), done_(done) {
    if (damage.kind == DamageKind::kSeed) ++job_.seed;
  }
  /// Prepares the program with this object's copy of the job, which outlives the program.
  void prepare(exec::Backend& backend, const exec::PrepareOptions& options) {
    program_ = backend.prepare(job_, options);
    if (damage_.kind == DamageKind::kSeed) done_ = fmt::format("the seed is {}", job_.seed);
    if (damage_.kind == DamageKind::kDataPosition)
      done_ = "each step reads the batch before its own";
  }
  const exec::Program& inner() const { return *program_; }

  const exec::MemoryReport& memory() const override { return program_->memory(); }
  int threads() const override { return program_->threads(); }
  void write_variable(TensorId variable, const ArrayView& value) override {
    program_->write_variable(variable, value);
  }
  void read_variable(TensorId variable, std::span<std::byte> into) const override {
    program_->read_variable(variable, into);
  }
  void connect() override { program_->connect(); }
  std::span<std::byte> input(TensorId input, size_t slot) override {
    return program_->input(input, slot);
  }
  std::span<int64_t> rows(size_t slot) override { return program_->rows(slot); }
  void launch(const exec::Call& call, size_t input_slot, size_t output_slot) override {
    launched_ = call.step;
    if (call.step == damage_.step) damage_variables();
    exec::Call changed = call;
    if (damage_.kind == DamageKind::kStep && call.step >= damage_.step) {
      ++changed.step;
      if (job_.optimizer)
        changed.learning_rate = plan::learning_rate(job_.optimizer->learning_rate, changed.step);
      done_ = "each step counts as the next one";
    }
    program_->launch(changed, input_slot, output_slot);
  }
  void wait(size_t output_slot) override { program_->wait(output_slot); }
  void wait_segment(size_t segment, size_t output_slot) override {
    program_->wait_segment(segment, output_slot);
  }
  std::span<const std::byte> delivered(TensorId tensor, size_t output_slot) const override {
    const std::span<const std::byte> bytes = program_->delivered(tensor, output_slot);
    if (!flips_output() || (job_.optimizer && tensor == job_.optimizer->loss)) return bytes;
    flipped_.assign(bytes.begin(), bytes.end());
    flip_bit(job_[tensor].dtype, plan::whole_shape(job_, job_[tensor]), flipped_);
    done_ = fmt::format("one bit of `{}` is flipped", job_[tensor].name);
    return flipped_;
  }
  std::span<const std::byte> delivered_part(TensorId tensor, int64_t shard,
                                            size_t output_slot) const override {
    return program_->delivered_part(tensor, shard, output_slot);
  }
  std::optional<exec::Fault> fault(size_t output_slot) const override {
    return program_->fault(output_slot);
  }
  std::vector<exec::TimedStep> timed_steps() const override { return program_->timed_steps(); }
  std::span<const int64_t> step_times(size_t output_slot) const override {
    return program_->step_times(output_slot);
  }

 private:
  bool is_wanted(const plan::Variable& variable) const {
    const auto& optimizer = job_.optimizer;
    const bool scale =
        optimizer && optimizer->loss_scale && optimizer->loss_scale->scale == variable.tensor;
    switch (damage_.kind) {
      case DamageKind::kSlot:
        return variable.slot && !scale;
      case DamageKind::kMovingMean:
        return is_moved(job_, variable.tensor);
      case DamageKind::kLossScale:
        return scale;
      case DamageKind::kBit:
        return job_.train && variable.trainable && !variable.slot;
      default:
        return false;
    }
  }

  /// Sets `value` to the damaged value. If that changes nothing, `done_` stays empty.
  void lose(const plan::Variable& variable, Array& value) {
    const std::string& name = job_[variable.tensor].name;
    if (damage_.kind == DamageKind::kBit) {
      flip_bit(value.dtype(), value.shape(), value.bytes());
      done_ = fmt::format("one bit of `{}` is flipped", name);
      return;
    }
    if (damage_.kind == DamageKind::kLossScale) {
      io::visit_elements(value.view(), [&](auto elements) {
        using T = std::remove_const_t<typename decltype(elements)::element_type>;
        auto* first = reinterpret_cast<T*>(value.bytes().data());
        *first = io::element_of<T>(static_cast<double>(*first) / 2);
      });
      done_ = fmt::format("`{}` is halved", name);
      return;
    }
    Array initial = exec::initial_value(job_, variable, damage_.root);
    if (std::ranges::equal(initial.bytes(), value.bytes())) return;
    value = std::move(initial);
    done_ = fmt::format("`{}` is back at its initial value", name);
  }

  /// Damages the first variable that the damage changes.
  void damage_variables() {
    for (const plan::Variable& variable : job_.variables) {
      if (!is_wanted(variable)) continue;
      const plan::Tensor& tensor = job_[variable.tensor];
      Array value(tensor.dtype, tensor.shape);
      program_->read_variable(variable.tensor, value.bytes());
      lose(variable, value);
      if (done_.empty()) continue;
      program_->write_variable(variable.tensor, value.view());
      return;
    }
  }

  /// Returns true if the bit is to be flipped in an output. A job that trains nothing has no
  /// variable whose damage a later call would show.
  bool flips_output() const {
    return damage_.kind == DamageKind::kBit && done_.empty() && launched_ >= damage_.step;
  }

  plan::Job job_;
  const Damage& damage_;
  std::string& done_;
  std::unique_ptr<exec::Program> program_;
  int64_t launched_ = -1;                   // the last step that was launched
  mutable std::vector<std::byte> flipped_;  // the damaged copy of a delivered tensor
};

class DamagedBackend final : public exec::Backend {
 public:
  DamagedBackend(std::unique_ptr<exec::Backend> backend, const Damage& damage, std::string& done)
      : backend_(std::move(backend)), damage_(damage), done_(done) {}

  std::string device() const override { return backend_->device(); }
  std::string instruction_set() const override { return backend_->instruction_set(); }
  std::map<std::string, std::string> libraries() const override { return backend_->libraries(); }
  /// Returns false because variables are changed between calls, when no call may be in flight.
  bool asynchronous() const override { return false; }
  bool runs_shards() const override { return backend_->runs_shards(); }
  bool runs_ranks() const override { return backend_->runs_ranks(); }
  exec::HostMemory host_memory(size_t bytes) override { return backend_->host_memory(bytes); }
  std::unique_ptr<exec::Program> prepare(const plan::Job& job,
                                         const exec::PrepareOptions& options) override {
    exec::PrepareOptions inner = options;
    for (exec::VariableSource& source : inner.variable_sources)
      if (const auto* program = dynamic_cast<const DamagedProgram*>(source.program))
        source.program = &program->inner();
    if (job.name != damage_.job) return backend_->prepare(job, inner);
    if (damage_.kind == DamageKind::kWritten) {
      inner.made = [this, &job](int64_t step, TensorId made, std::span<std::byte> bytes) {
        if (step == damage_.step && job[made].name == damage_.tensor) flip_written(bytes);
      };
      return backend_->prepare(job, inner);
    }
    auto program = std::make_unique<DamagedProgram>(job, damage_, done_);
    program->prepare(*backend_, inner);
    return program;
  }

 private:
  /// Flips the bit only once. For a tensor that shards make, it is in the part of the first shard.
  void flip_written(std::span<std::byte> bytes) {
    if (!done_.empty() || bytes.empty()) return;
    const uint64_t bit = damage_.bit % (bytes.size() * 8);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    done_ = fmt::format("bit {} of `{}` is flipped", bit, damage_.tensor);
  }

  const std::unique_ptr<exec::Backend> backend_;
  const Damage& damage_;
  std::string& done_;
};

}  // namespace

std::span<const DamageInfo> all_damages() { return kDamages; }

std::unique_ptr<exec::Backend> damaged(std::unique_ptr<exec::Backend> backend, const Damage& damage,
                                       std::string& done) {
  return std::make_unique<DamagedBackend>(std::move(backend), damage, done);
}

}  // namespace flow::verify
