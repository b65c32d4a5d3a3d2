// Splits a job in one pass over its steps: each step goes to its device, and a copy goes to both
// devices.
#include "runtime/exec/multi_device/multi_device.h"

#include <algorithm>

#include "ops/core/spec.h"
#include "runtime/exec/core/memory.h"

namespace flow::exec {
namespace {

using plan::DeviceKind;
using plan::Role;
using plan::TensorId;

class Splitter {
 public:
  Splitter(const plan::Job& job, std::span<const TensorId> deliverables)
      : job_(job), probes_(readers_of_probes(job, deliverables)) {
    for (const DeviceKind device : kDevices) part(device).job = begin_part(device);
  }

  Split run() {
    for (size_t i = 0; i < job_.steps.size(); ++i)
      if (job_.steps[i].op->between_devices)
        pass(job_.steps[i], probes_[i]);
      else
        add(job_.device_of(job_.steps[i]), job_.steps[i]);
    for (const DeviceKind device : kDevices)
      if (!part(device).job.variables.empty() || !part(device).job.inputs.empty()) open_any(device);
    for (const DeviceKind device : kDevices)
      for (const size_t turn : turns_of_[index_of(device)])
        part(device).segments.push_back(ends_[turn]);
    return std::move(split_);
  }

 private:
  Part& part(DeviceKind device) { return split_.parts[index_of(device)]; }

  /// Returns the job without steps, and with only the inputs and variables of the device.
  plan::Job begin_part(DeviceKind device) const {
    const auto is_elsewhere = [&](TensorId id) { return job_.device_of(job_[id]) != device; };
    plan::Job made = job_;
    made.steps.clear();
    made.hooks.clear();
    made.returns.reset();
    made.optimizer.reset();
    made.device = device;
    // tf32 is not available on a CPU.
    if (device == DeviceKind::kCpu && made.precision == "tf32" && plan::has_two_devices(job_))
      made.precision = "float32";
    std::erase_if(made.variables,
                  [&](const auto& variable) { return is_elsewhere(variable.tensor); });
    std::erase_if(made.inputs, [&](const auto& input) { return is_elsewhere(input.tensor); });
    for (size_t i = 0; i < made.tensors.size(); ++i) {
      plan::Tensor& tensor = made.tensors[i];
      tensor.device.reset();
      if (!is_elsewhere(TensorId(i))) continue;
      tensor.role = Role::kResult;
      tensor.alias = TensorId();
    }
    return made;
  }

  /// Returns the device's last turn, or a new one if it has none.
  size_t open_any(DeviceKind device) {
    return turns_of_[index_of(device)].empty() ? open(device) : turns_of_[index_of(device)].back();
  }

  size_t open(DeviceKind device) {
    std::vector<size_t>& turns = turns_of_[index_of(device)];
    split_.turns.push_back({device, turns.size()});
    turns.push_back(split_.turns.size() - 1);
    ends_.push_back(part(device).job.steps.size());
    return turns.back();
  }

  size_t add(DeviceKind device, plan::Step step) {
    const size_t turn = open_any(device);
    step.device.reset();
    part(device).job.steps.push_back(std::move(step));
    ends_[turn] = part(device).job.steps.size();
    return turn;
  }

  /// Adds a copy to both parts: one device copies the tensor to host memory, the other from there.
  /// The CPU's part needs no step for this, because the CPU computes in host memory.
  void pass(const plan::Step& copy, const std::vector<size_t>& wanted_by) {
    const DeviceKind to = job_.device_of(copy), from = other(to);
    const TensorId result = copy.outputs[0];
    split_.transfers.push_back({bytes_of(job_[result]), wanted_by});
    const size_t sent = add(from, copy);
    part(from).transferred.push_back(result);
    if (turns_of_[index_of(to)].empty() || turns_of_[index_of(to)].back() < sent) open(to);
    if (to == DeviceKind::kCpu) {
      part(to).job.tensors[result.index()].role = Role::kInput;
      part(to).transferred.push_back(result);
    } else {
      plan::Step received = copy;
      received.inputs = {add_host_side(to, result)};
      part(to).transferred.push_back(received.inputs[0]);
      add(to, std::move(received));
    }
    std::optional<size_t>& awaits = split_.turns[turns_of_[index_of(to)].back()].awaits;
    awaits = std::max(awaits.value_or(0), split_.turns[sent].segment);
  }

  /// Adds a tensor with the properties of `like` that is stored outside the memory of the call, as
  /// variables are.
  TensorId add_host_side(DeviceKind device, TensorId like) {
    std::vector<plan::Tensor>& tensors = part(device).job.tensors;
    plan::Tensor made = tensors[like.index()];
    made.name += ":passed";
    made.role = Role::kVariable;
    made.alias = TensorId();
    tensors.push_back(std::move(made));
    return TensorId(tensors.size() - 1);
  }

  const plan::Job& job_;
  const std::vector<std::vector<size_t>> probes_;  // indexed by step
  Split split_;
  std::array<std::vector<size_t>, kDeviceKinds> turns_of_;  // indexed by DeviceKind
  std::vector<size_t> ends_;  // the number of steps of its part up to the end of each turn
};

}  // namespace

Split split_job(const plan::Job& job, std::span<const TensorId> deliverables) {
  return Splitter(job, deliverables).run();
}

}  // namespace flow::exec
