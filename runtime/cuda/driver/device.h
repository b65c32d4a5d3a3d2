// Finds the GPUs of this machine and opens one of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/driver/driver.h"

namespace flow::cuda {

struct Machine {
  std::vector<DeviceProperties> devices;
  std::string problem, remedy;  // why there are no devices; empty if there are any
};

/// Returns the GPUs of this machine. Creates no context and does not throw, even if there is no
/// NVIDIA driver.
Machine find_devices();

/// Opens a device through the CUDA runtime, with its own memory and streams. Throws RunError if the
/// device does not exist, cannot be used now, or is too old for the kernels.
std::unique_ptr<Driver> open_device(int index);

}  // namespace flow::cuda
