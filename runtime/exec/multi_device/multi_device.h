// Jobs that run on a CPU and a GPU together: a job for each, and the order in which their programs
// take turns.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

constexpr size_t kDeviceKinds = 2;
constexpr std::array<plan::DeviceKind, kDeviceKinds> kDevices = {plan::DeviceKind::kCpu,
                                                                 plan::DeviceKind::kGpu};

constexpr size_t index_of(plan::DeviceKind device) { return static_cast<size_t>(device); }

/// What one device does of a job: its steps in their order, cut into segments, which run whole.
struct Part {
  /// Tensors have the ids that they have in the job; the other device's are results of no step.
  plan::Job job;
  std::vector<size_t> segments;             // the step behind the last of each; empty: no part
  std::vector<plan::TensorId> transferred;  // by transfer: what of it lies in host memory
};

/// A copy from one device to the other, by way of host memory.
struct Transfer {
  size_t bytes;
  std::vector<size_t> wanted_by;  // of a probe: the deliverables for which it is made
};

/// A segment in the order of a call.
struct Turn {
  plan::DeviceKind device;
  size_t segment;
  /// The last segment of the other device of which it reads something.
  std::optional<size_t> awaits = {};
};

struct Split {
  std::array<Part, kDeviceKinds> parts;  // by DeviceKind
  std::vector<Transfer> transfers;
  std::vector<Turn> turns;
};

/// Cuts the job. A device keeps its turn until it needs what the other has not yet passed on.
Split split_job(const plan::Job& job, std::span<const plan::TensorId> deliverables);

/// A call returns from its launch when the CPU's turns are over; nothing is launched ahead of one
/// that is not complete. Jobs of one device run as their own backend runs them, in turn.
std::unique_ptr<Backend> make_multi_device_backend(std::unique_ptr<Backend> cpu,
                                                   std::unique_ptr<Backend> gpu);

}  // namespace flow::exec
