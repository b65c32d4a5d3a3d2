// Two programs that take turns.
#include "runtime/exec/multi_device/multi_device_program.h"

#include <algorithm>
#include <utility>

#include "runtime/base/ceil_div.h"
#include "runtime/exec/core/profile.h"

namespace flow::exec {
namespace {

using plan::DeviceKind;
using plan::TensorId;

constexpr size_t kAlignment = 256;  // bytes, as devices like it

size_t aligned(size_t bytes) { return round_up(bytes, kAlignment); }

}  // namespace

MultiDeviceProgram::MultiDeviceProgram(const plan::Job& job, Split split, HostMemory memory)
    : split_(std::move(split)),
      transferred_bytes_(bytes_of(split_.transfers)),
      memory_(std::move(memory)) {
  for (const plan::Tensor& tensor : job.tensors) homes_.push_back(job.device_of(tensor));
}

size_t MultiDeviceProgram::bytes_of(const std::vector<Transfer>& transfers) {
  size_t bytes = 0;
  for (const Transfer& transfer : transfers) bytes += aligned(transfer.bytes);
  return bytes;
}

PrepareOptions MultiDeviceProgram::options_for(DeviceKind device,
                                               const PrepareOptions& options) const {
  PrepareOptions made = options;
  const auto is_elsewhere = [&](TensorId id) { return homes_[id.index()] != device; };
  for (TensorId& id : made.deliverables)
    if (is_elsewhere(id)) id = TensorId();
  // Rows are numbered for one device, which then keeps all of them.
  if (std::ranges::any_of(made.columns, is_elsewhere, &ColumnInput::input)) made.columns.clear();
  made.variable_sources.clear();
  for (const VariableSource& source : options.variable_sources) {
    const auto& mixed = static_cast<const MultiDeviceProgram&>(*source.program);
    if (mixed.has(device))
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

void MultiDeviceProgram::set(DeviceKind device, std::unique_ptr<Program> program) {
  programs_[index_of(device)] = std::move(program);
}

void MultiDeviceProgram::begin(const plan::Job& job, const PrepareOptions& options) {
  account();
  const size_t output_slots = std::max<size_t>(1, options.output_slots);
  if (options.fingerprints) plan_fingerprints(job, output_slots);
  if (options.profile) plan_timing(output_slots);
}

void MultiDeviceProgram::account() {
  report_.pinned = transferred_bytes_;
  for (const DeviceKind device : kDevices) {
    if (!has(device)) continue;
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

int MultiDeviceProgram::threads() const {
  return program(has(DeviceKind::kCpu) ? DeviceKind::kCpu : DeviceKind::kGpu).threads();
}

void MultiDeviceProgram::write_variable(TensorId variable, const ArrayView& value) {
  home_of(variable).write_variable(variable, value);
}

void MultiDeviceProgram::read_variable(TensorId variable, std::span<std::byte> into) const {
  home_of(variable).read_variable(variable, into);
}

std::span<std::byte> MultiDeviceProgram::input(TensorId input, size_t slot) {
  return home_of(input).input(input, slot);
}

std::span<int64_t> MultiDeviceProgram::rows(size_t slot) {
  for (const DeviceKind device : kDevices)
    if (has(device))
      if (const std::span<int64_t> rows = program(device).rows(slot); !rows.empty()) return rows;
  return {};
}

void MultiDeviceProgram::launch(const Call& call, size_t input_slot, size_t output_slot) {
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

void MultiDeviceProgram::wait_segment(size_t segment, size_t output_slot) {
  if (is_on_one_device()) return only().wait_segment(segment, output_slot);
  wait(output_slot);
}

void MultiDeviceProgram::wait(size_t output_slot) {
  for (const DeviceKind device : kDevices)
    if (has(device)) program(device).wait(output_slot);
}

std::span<const std::byte> MultiDeviceProgram::delivered(TensorId tensor,
                                                         size_t output_slot) const {
  return home_of(tensor).delivered(tensor, output_slot);
}

std::optional<Fault> MultiDeviceProgram::fault(size_t output_slot) const {
  for (const DeviceKind device : kDevices)
    if (has(device))
      if (const auto fault = program(device).fault(output_slot)) return fault;
  return std::nullopt;
}

/// In the order of the job; each program lists its own tensors in that order.
void MultiDeviceProgram::plan_fingerprints(const plan::Job& job, size_t output_slots) {
  std::vector<std::optional<Taken>> taken(job.tensors.size());
  for (const DeviceKind device : kDevices) {
    if (!has(device)) continue;
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

std::span<const Fingerprint> MultiDeviceProgram::fingerprints(size_t output_slot) const {
  std::array<std::span<const Fingerprint>, kDeviceKinds> parts;
  for (const DeviceKind device : kDevices)
    if (has(device)) parts[index_of(device)] = program(device).fingerprints(output_slot);
  std::ranges::transform(taken_, fingerprints_[output_slot].begin(), [&](const Taken& taken) {
    return parts[index_of(taken.device)][taken.at];
  });
  return fingerprints_[output_slot];
}

double MultiDeviceProgram::fingerprint_seconds() const {
  double seconds = 0;
  for (const DeviceKind device : kDevices)
    if (has(device)) seconds += program(device).fingerprint_seconds();
  return seconds;
}

/// The steps of each turn, behind what it waits for.
void MultiDeviceProgram::plan_timing(size_t output_slots) {
  std::array<std::vector<TimedStep>, kDeviceKinds> steps;
  for (const DeviceKind device : kDevices)
    if (has(device)) steps[index_of(device)] = program(device).timed_steps();
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

std::vector<TimedStep> MultiDeviceProgram::timed_steps() const { return timed_steps_; }

/// In the order of turns. What two devices do at once is counted where it ends later.
std::span<const int64_t> MultiDeviceProgram::step_times(size_t output_slot) const {
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

}  // namespace flow::exec
