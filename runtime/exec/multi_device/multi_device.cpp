// The backend of jobs on two devices: makes a program for each part of a job and launches their
// segments in turn.
#include "runtime/exec/multi_device/multi_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/exec/core/profile.h"

namespace flow::exec {
namespace {

using plan::DeviceKind;
using plan::TensorId;

constexpr size_t kAlignment = 256;  // bytes; suitable for both devices

size_t aligned(size_t bytes) { return round_up(bytes, kAlignment); }

/// A job function on two devices: contains a program for each part, and launches their segments in
/// turn.
class MultiDeviceProgram : public Program {
 public:
  /// `memory` has bytes_of(split.transfers) bytes.
  MultiDeviceProgram(const plan::Job& job, Split split, HostMemory memory)
      : split_(std::move(split)),
        transferred_bytes_(bytes_of(split_.transfers)),
        memory_(std::move(memory)) {
    for (const DeviceKind device : kDevices)
      if (!part(device).segments.empty()) devices_.push_back(device);
    for (const plan::Tensor& tensor : job.tensors) homes_.push_back(job.device_of(tensor));
  }

  /// Returns the bytes of host memory for the transfers. Each transfer has a separate block.
  static size_t bytes_of(const std::vector<Transfer>& transfers) {
    size_t bytes = 0;
    for (const Transfer& transfer : transfers) bytes += aligned(transfer.bytes);
    return bytes;
  }

  // The following functions are called in this order, for each device that has a part.
  const std::vector<DeviceKind>& devices() const { return devices_; }
  const Part& part(DeviceKind device) const { return split_.parts[index_of(device)]; }
  PrepareOptions options_for(DeviceKind device, const PrepareOptions& options) const {
    PrepareOptions made = options;
    const auto is_elsewhere = [&](TensorId id) { return homes_[id.index()] != device; };
    for (TensorId& id : made.deliverables)
      if (is_elsewhere(id)) id = TensorId();
    // Row indices are passed to one device only, which then must keep all columns.
    if (std::ranges::any_of(made.columns, is_elsewhere, &ColumnInput::input)) made.columns.clear();
    made.variable_sources.clear();
    for (const VariableSource& source : options.variable_sources) {
      const auto& mixed = static_cast<const MultiDeviceProgram&>(*source.program);
      if (std::ranges::count(mixed.devices_, device) > 0)
        made.variable_sources.push_back({&mixed.part(device).job, &mixed.program(device)});
    }
    if (!is_on_one_device()) made.segments = part(device).segments;
    std::byte* memory = memory_.get();
    for (size_t i = 0; i < split_.transfers.size(); ++i) {
      const Transfer& transfer = split_.transfers[i];
      made.transferred.push_back({part(device).transferred[i], memory, transfer.wanted_by});
      memory += aligned(transfer.bytes);
    }
    return made;
  }

  void set(DeviceKind device, std::unique_ptr<Program> program) {
    programs_[index_of(device)] = std::move(program);
  }

  void begin(const plan::Job& job, const PrepareOptions& options) {
    account();
    const size_t output_slots = std::max<size_t>(1, options.output_slots);
    if (options.fingerprints) plan_fingerprints(job, output_slots);
    if (options.profile) plan_timing(output_slots);
  }

  const MemoryReport& memory() const override { return report_; }
  int threads() const override { return program(devices_.front()).threads(); }

  void write_variable(TensorId variable, const ArrayView& value) override {
    home_of(variable).write_variable(variable, value);
  }

  void read_variable(TensorId variable, std::span<std::byte> into) const override {
    home_of(variable).read_variable(variable, into);
  }

  std::span<std::byte> input(TensorId input, size_t slot) override {
    return home_of(input).input(input, slot);
  }

  std::span<int64_t> rows(size_t slot) override {
    for (const DeviceKind device : devices_)
      if (const std::span<int64_t> rows = program(device).rows(slot); !rows.empty()) return rows;
    return {};
  }

  void launch(const Call& call, size_t input_slot, size_t output_slot) override {
    if (is_on_one_device()) return only().launch(call, input_slot, output_slot);
    Call part = call;
    for (size_t i = 0; i < split_.turns.size(); ++i) {
      const Turn& turn = split_.turns[i];
      if (turn.awaits && turn.device == DeviceKind::kCpu) {
        program(DeviceKind::kGpu).wait_segment(*turn.awaits, output_slot);
        if (!awaited_.empty()) awaited_[output_slot][i] = Profile::now();
      }
      part.segment = turn.segment;
      program(turn.device).launch(part, input_slot, output_slot);
    }
  }

  void wait_segment(size_t segment, size_t output_slot) override {
    if (is_on_one_device()) return only().wait_segment(segment, output_slot);
    wait(output_slot);
  }

  void wait(size_t output_slot) override {
    for (const DeviceKind device : devices_) program(device).wait(output_slot);
  }

  std::span<const std::byte> delivered(TensorId tensor, size_t output_slot) const override {
    return home_of(tensor).delivered(tensor, output_slot);
  }

  std::optional<Fault> fault(size_t output_slot) const override {
    for (const DeviceKind device : devices_)
      if (const auto fault = program(device).fault(output_slot)) return fault;
    return std::nullopt;
  }

  std::vector<TensorId> fingerprinted() const override { return fingerprinted_; }
  std::span<const Fingerprint> fingerprints(size_t output_slot) const override {
    std::array<std::span<const Fingerprint>, kDeviceKinds> parts;
    for (const DeviceKind device : devices_)
      parts[index_of(device)] = program(device).fingerprints(output_slot);
    std::ranges::transform(taken_, fingerprints_[output_slot].begin(), [&](const Taken& taken) {
      return parts[index_of(taken.device)][taken.at];
    });
    return fingerprints_[output_slot];
  }

  double fingerprint_seconds() const override {
    double seconds = 0;
    for (const DeviceKind device : devices_) seconds += program(device).fingerprint_seconds();
    return seconds;
  }

  std::vector<TimedStep> timed_steps() const override { return timed_steps_; }

  /// Returns the times in the order of turns. Time that overlaps with the other device is counted
  /// for the step that ends later.
  std::span<const int64_t> step_times(size_t output_slot) const override {
    std::vector<int64_t>& times = times_[output_slot];
    const auto of_program = [&](DeviceKind device) {
      return program(device).step_times(output_slot);
    };
    if (timings_.empty()) return times;
    times[0] = of_program(split_.turns.front().device)[0];
    for (size_t i = 0; i < timings_.size(); ++i) {
      const Timing& timing = timings_[i];
      const int64_t end = timing.step ? of_program(timing.device)[*timing.step + 1]
                                      : awaited_[output_slot][timed_steps_[i].segment];
      times[i + 1] = std::max(times[i], end);
    }
    return times;
  }

 private:
  /// A timed item: a step of a program, or waiting for what a program sends.
  struct Timing {
    DeviceKind device;
    std::optional<size_t> step;  // an index into that program's timed steps
  };
  /// A fingerprint in the list of a program.
  struct Taken {
    DeviceKind device;
    size_t at;
  };

  Program& program(DeviceKind device) const { return *programs_[index_of(device)]; }
  /// Returns true if all steps run on one device. The segments of a call are then those of the
  /// job's loop.
  bool is_on_one_device() const { return split_.turns.size() == 1; }
  Program& only() const { return program(split_.turns[0].device); }
  Program& home_of(TensorId tensor) const { return program(homes_[tensor.index()]); }
  void account() {
    report_.pinned = transferred_bytes_;
    for (const DeviceKind device : devices_) {
      MemoryReport part = program(device).memory();
      part.device = plan::name_of(device);
      report_.variables += part.variables;
      report_.inputs += part.inputs;
      report_.outputs += part.outputs;
      report_.arena += part.arena;
      report_.columns += part.columns;
      report_.pinned += part.pinned;
      report_.parts.push_back(std::move(part));
    }
  }

  /// Lists the fingerprints in the order of the job. The list of each program has the same order.
  void plan_fingerprints(const plan::Job& job, size_t output_slots) {
    std::vector<std::optional<Taken>> taken(job.tensors.size());
    for (const DeviceKind device : devices_) {
      const std::vector<TensorId> tensors = program(device).fingerprinted();
      for (size_t i = 0; i < tensors.size(); ++i) taken[tensors[i].index()] = {device, i};
    }
    const auto add = [&](TensorId id) {
      if (!id.valid() || !taken[id.index()]) return;
      fingerprinted_.push_back(id);
      taken_.push_back(*taken[id.index()]);
    };
    for (const plan::Input& input : job.inputs) add(input.tensor);
    for (const plan::Variable& variable : job.variables) add(variable.tensor);
    for (const plan::Step& step : job.steps) std::ranges::for_each(step.outputs, add);
    fingerprints_.assign(output_slots, std::vector<Fingerprint>(taken_.size()));
  }

  /// Lists the timed items of each turn: the wait comes first, then the steps.
  void plan_timing(size_t output_slots) {
    std::array<std::vector<TimedStep>, kDeviceKinds> steps;
    for (const DeviceKind device : devices_)
      steps[index_of(device)] = program(device).timed_steps();
    for (size_t turn = 0; turn < split_.turns.size(); ++turn) {
      const auto& [device, segment, awaits] = split_.turns[turn];
      if (awaits && device == DeviceKind::kCpu) {
        timed_steps_.push_back({"steps on the gpu", "wait for copies to the host", "", turn});
        timings_.push_back({device, std::nullopt});
      }
      const std::vector<TimedStep>& own = steps[index_of(device)];
      for (size_t i = 0; i < own.size(); ++i) {
        if (own[i].segment != segment) continue;
        timed_steps_.push_back(own[i]);
        timed_steps_.back().segment = turn;
        timings_.push_back({device, i});
      }
    }
    awaited_.assign(output_slots, std::vector<int64_t>(split_.turns.size()));
    times_.assign(output_slots, std::vector<int64_t>(timed_steps_.size() + 1));
  }

  Split split_;
  std::vector<DeviceKind> devices_;  // the devices that have a part
  std::vector<DeviceKind> homes_;    // indexed by tensor of the job
  size_t transferred_bytes_;
  HostMemory memory_;
  std::array<std::unique_ptr<Program>, kDeviceKinds> programs_;  // indexed by DeviceKind
  MemoryReport report_;
  std::vector<TensorId> fingerprinted_;  // empty if the programs take no fingerprints
  std::vector<Taken> taken_;             // the fingerprint of each tensor in fingerprinted_
  mutable std::vector<std::vector<Fingerprint>> fingerprints_;  // indexed by output slot
  std::vector<TimedStep> timed_steps_;               // empty if the programs do not profile
  std::vector<Timing> timings_;                      // indexed like timed_steps_
  std::vector<std::vector<int64_t>> awaited_;        // when each turn began, by output slot
  mutable std::vector<std::vector<int64_t>> times_;  // results of step_times, by output slot
};

class MultiDeviceBackend : public Backend {
 public:
  MultiDeviceBackend(std::unique_ptr<Backend> cpu, std::unique_ptr<Backend> gpu)
      : backends_{std::move(cpu), std::move(gpu)} {}

  std::string device() const override { return both(&Backend::device); }
  std::string instruction_set() const override { return both(&Backend::instruction_set); }
  std::map<std::string, std::string> libraries() const override {
    std::map<std::string, std::string> all = backends_[0]->libraries();
    all.merge(backends_[1]->libraries());
    return all;
  }
  HostMemory host_memory(size_t bytes) override { return gpu().host_memory(bytes); }

  std::unique_ptr<Program> prepare(const plan::Job& job, const PrepareOptions& options) override {
    Split parts = split_job(job, options.deliverables);
    HostMemory memory = memory_for(job, parts.transfers);
    auto program = std::make_unique<MultiDeviceProgram>(job, std::move(parts), std::move(memory));
    const std::vector<DeviceKind>& devices = program->devices();
    for (auto device = devices.rbegin(); device != devices.rend(); ++device)
      program->set(*device,
                   backends_[index_of(*device)]->prepare(program->part(*device).job,
                                                         program->options_for(*device, options)));
    program->begin(job, options);
    return program;
  }

 private:
  Backend& gpu() { return *backends_[index_of(DeviceKind::kGpu)]; }

  /// Returns a text of both devices: "cuda:0 NVIDIA H100 and cpu".
  std::string both(std::string (Backend::*text)() const) const {
    return fmt::format("{} and {}", (*backends_[1].*text)(), (*backends_[0].*text)());
  }

  HostMemory memory_for(const plan::Job& job, const std::vector<Transfer>& transfers) {
    if (transfers.empty()) return nullptr;
    try {
      const size_t bytes = MultiDeviceProgram::bytes_of(transfers);
      HostMemory memory = host_memory(bytes);
      // Set to zero, because kernels that are tried before the first call read it, and indices, for
      // example, must be in range.
      std::memset(memory.get(), 0, bytes);
      return memory;
    } catch (const RunError& error) {
      throw error.at(fmt::format("{}: job `{}`", job.where, job.name));
    }
  }

  std::array<std::unique_ptr<Backend>, kDeviceKinds> backends_;  // indexed by DeviceKind
};

}  // namespace

std::unique_ptr<Backend> make_multi_device_backend(std::unique_ptr<Backend> cpu,
                                                   std::unique_ptr<Backend> gpu) {
  return std::make_unique<MultiDeviceBackend>(std::move(cpu), std::move(gpu));
}

}  // namespace flow::exec
