// What libflow_cuda.so exports (see runtime/exec/run/module.h).
#include "runtime/exec/run/module.h"

#include "flow_build_id.h"
#include "runtime/cuda/driver/device.h"
#include "runtime/cuda/program/backend.h"

#define FLOW_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

/// Looked at once: the texts stay.
const flow::cuda::Machine& machine() {
  static const flow::cuda::Machine kMachine = flow::cuda::find_devices();
  return kMachine;
}

}  // namespace

FLOW_EXPORT flow::exec::ModuleEntries::BuildId flow_module_build_id;
FLOW_EXPORT flow::exec::ModuleEntries::Find flow_module_find;
FLOW_EXPORT flow::exec::ModuleEntries::MakeBackend flow_module_make_backend;

const char* flow_module_build_id() { return FLOW_BUILD_ID; }

bool flow_module_find(const char** problem, const char** remedy) {
  *problem = machine().problem.c_str();
  *remedy = machine().remedy.c_str();
  return !machine().devices.empty();
}

flow::exec::Backend* flow_module_make_backend() {
  auto driver = flow::cuda::open_device(machine().devices.front().index);
  auto libraries = flow::cuda::open_libraries(*driver);
  return flow::cuda::make_backend(std::move(driver), std::move(libraries)).release();
}
