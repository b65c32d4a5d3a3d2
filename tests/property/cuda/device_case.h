// Single kernels of the CUDA backend on a test device: captured, launched as a graph, read back.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/cuda/loops/kernel.h"
#include "tests/property/kernel_case.h"
#include "tests/support/cuda/test_device.h"

namespace flow::test {

struct DeviceSettings {
  LaneOrder lanes = LaneOrder::kForward;
  int64_t step = 3;
  double learning_rate = 0.125;
  cuda::FaultBlock fault = {};  // as the call finds it
};

struct DeviceRun {
  KernelRun run;  // its fault is made of what the kernel left in the block
  cuda::FaultBlock block;
};

/// Fails a check where the driver was misused, or something was left.
DeviceRun run_on_device(const KernelCase& one, const DeviceSettings& settings = {});

/// Requires results near the reference's, and the same bits in either order of lanes.
void require_reference(const KernelCase& one);

/// Updates of several variables, all of one op, as the backend runs them; and in how many launches.
struct UpdatesRun {
  std::vector<KernelRun> runs;
  std::optional<int64_t> launches;  // where the device counts them
};
UpdatesRun run_updates_on_device(std::span<const KernelCase> cases,
                                 const DeviceSettings& settings = {});

}  // namespace flow::test
