// The module is opened, and the CUDA runtime asked, where there may be no GPU, no driver and no
// libcuda.
#include <catch2/catch.hpp>

#include <dlfcn.h>

#include "runtime/base/error.h"
#include "runtime/cuda/driver/device.h"

namespace flow::test {
namespace {

TEST_CASE("The module opens with every symbol bound") {
  void* module = dlopen(FLOW_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
  INFO(dlerror());
  CHECK(module);
}

TEST_CASE("A machine without a GPU says so, and what to do") {
  const cuda::Machine machine = cuda::find_devices();
  CHECK(machine.devices.empty() != machine.problem.empty());
  CHECK(machine.devices.empty() != machine.remedy.empty());
}

TEST_CASE("A GPU that is not there is not opened") {
  const cuda::Machine machine = cuda::find_devices();
  try {
    cuda::open_device(99);
    FAIL("opened");
  } catch (const RunError& error) {
    if (machine.devices.empty())
      CHECK(error.what() == machine.problem);
    else
      CHECK_THAT(error.what(), Catch::Contains("99") && Catch::Contains(machine.devices[0].name));
  }
}

}  // namespace
}  // namespace flow::test
