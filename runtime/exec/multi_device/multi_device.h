// Jobs that run on a CPU and a GPU together: each device has its own part of the job, and the
// programs of both parts take turns.
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

/// The part of a job that runs on one device: its steps in order, divided into segments that run
/// without interruption.
struct Part {
  /// Tensors have the same ids as in the whole job. The tensors of the other device are results
  /// that no step makes.
  plan::Job job;
  /// The index after the last step of each segment. Empty if the device has no steps.
  std::vector<size_t> segments;
  std::vector<plan::TensorId> transferred;  // the tensor in host memory of each transfer
};

/// A copy from one device to the other through host memory.
struct Transfer {
  size_t bytes;
  std::vector<size_t> wanted_by;  // the deliverables that need the copy, if it is for a probe
};

/// A segment, in the order of a call.
struct Turn {
  plan::DeviceKind device;
  size_t segment;
  /// The last segment of the other device from which this segment reads a tensor.
  std::optional<size_t> awaits = {};
};

struct Split {
  std::array<Part, kDeviceKinds> parts;  // indexed by DeviceKind
  std::vector<Transfer> transfers;
  std::vector<Turn> turns;
};

/// Splits the job. A device keeps its turn until it needs a tensor that the other device has not
/// sent yet.
Split split_job(const plan::Job& job, std::span<const plan::TensorId> deliverables);

/// Makes a backend for jobs on both devices. A launch returns when all turns of the CPU are
/// complete, and no call is launched before the previous one is complete. Jobs on one device run as
/// on the backend of that device, one call after another.
std::unique_ptr<Backend> make_multi_device_backend(std::unique_ptr<Backend> cpu,
                                                   std::unique_ptr<Backend> gpu);

}  // namespace flow::exec
