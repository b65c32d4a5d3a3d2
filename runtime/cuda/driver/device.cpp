// Finds devices, and determines the reason if there are none.
#include "runtime/cuda/driver/device.h"

#include <fmt/format.h>

#include <cstdlib>

#include "runtime/cuda/driver/runtime_error.h"

namespace flow::cuda {
namespace {

/// Formats a CUDA version: 13000 -> "13.0".
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Returns the CUDA version that the driver supports, or 0 if there is no driver.
int driver_version() {
  int version = 0;
  cudaDriverGetVersion(&version);
  return version;
}

int runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version;
}

Machine without_devices(cudaError_t error) {
  const int driver = driver_version(), runtime = runtime_version();
  Machine machine;
  if (driver == 0) {
    machine.problem = "this machine has no NVIDIA driver";
    machine.remedy = "install the driver and check it with `nvidia-smi`";
  } else if (error == cudaErrorInsufficientDriver) {
    machine.problem =
        fmt::format("the NVIDIA driver is too old: it supports CUDA {}; flow was built with {}",
                    version_text(driver), version_text(runtime));
    machine.remedy = remedy_for(error);
  } else if (error == cudaErrorNoDevice || error == cudaSuccess) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    machine.problem = "the NVIDIA driver finds no GPU";
    if (visible) machine.problem += fmt::format(" (CUDA_VISIBLE_DEVICES is `{}`)", visible);
    machine.remedy = remedy_for(cudaErrorNoDevice);
  } else {
    machine.problem = fmt::format("CUDA failed to initialize: {}", words_of(error));
    machine.remedy = remedy_for(error);
  }
  return machine;
}

DeviceProperties properties_of(int index, const cudaDeviceProp& p) {
  DeviceProperties properties;
  properties.name = p.name;
  properties.unique_name = "GPU-";
  for (const char byte : p.uuid.bytes)
    properties.unique_name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  properties.index = index;
  properties.major = p.major, properties.minor = p.minor;
  properties.multiprocessors = p.multiProcessorCount;
  properties.driver_version = version_text(driver_version());
  properties.runtime_version = version_text(runtime_version());
  properties.memory = p.totalGlobalMem;
  properties.shared_per_block = p.sharedMemPerBlockOptin;
  return properties;
}

}  // namespace

Machine find_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error != cudaSuccess || count == 0) return without_devices(error);
  Machine machine;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties;
    const cudaError_t failure = cudaGetDeviceProperties(&properties, index);
    if (failure != cudaSuccess) return without_devices(failure);
    machine.devices.push_back(properties_of(index, properties));
  }
  return machine;
}

}  // namespace flow::cuda
