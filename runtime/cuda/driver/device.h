// The GPUs of this machine, and how one of them is opened.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/driver/driver.h"

namespace flow::cuda {

struct Machine {
  std::vector<DeviceProperties> devices;
  std::string problem, remedy;  // why there are none; empty where there are
};

/// What is here. Creates no context and throws nothing, also where there is no NVIDIA driver.
Machine find_devices();

/// The device's own memory and streams, through the CUDA runtime. RunError where it is not there,
/// cannot be used now or is older than the kernels.
std::unique_ptr<Driver> open_device(int index);

}  // namespace flow::cuda
