// The functions that libflow_cuda.so exports (see runtime/exec/core/module.h).
#include "runtime/exec/core/module.h"

#include <string>

#include "flow_build_id.h"
#include "runtime/cuda/driver/device.h"
#include "runtime/cuda/program/backend.h"

#define FLOW_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

/// The devices are found only once, so that the texts stay valid.
const flow::cuda::Machine& machine() {
  static const flow::cuda::Machine kMachine = flow::cuda::find_devices();
  return kMachine;
}

std::string join_names() {
  std::string names;
  for (const flow::cuda::DeviceProperties& device : machine().devices)
    names += (names.empty() ? "" : ",") + device.unique_name;
  return names;
}

}  // namespace

FLOW_EXPORT flow::exec::ModuleEntries::BuildId flow_module_build_id;
FLOW_EXPORT flow::exec::ModuleEntries::Find flow_module_find;
FLOW_EXPORT flow::exec::ModuleEntries::MakeBackend flow_module_make_backend;

const char* flow_module_build_id() { return FLOW_BUILD_ID; }

const char* flow_module_find(const char** problem, const char** remedy) {
  static const std::string kNames = join_names();
  *problem = machine().problem.c_str();
  *remedy = machine().remedy.c_str();
  return kNames.c_str();
}

flow::exec::Backend* flow_module_make_backend(int device) {
  auto driver = flow::cuda::open_device(device);
  auto libraries = flow::cuda::open_libraries(*driver);
  return flow::cuda::make_backend(std::move(driver), std::move(libraries)).release();
}
