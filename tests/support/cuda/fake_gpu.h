// The CUDA backend on a device that is not there.
#pragma once

#include <memory>

#include "runtime/cuda/libraries/nccl.h"
#include "runtime/exec/core/backend.h"
#include "tests/support/cuda/fake_driver.h"

namespace flow::test {

struct FakeGpu {
  explicit FakeGpu(const FakeDevice& device = {},
                   const cuda::NcclCalls& (*open_nccl)() = cuda::open_nccl);

  FakeDriver* driver;  // the backend's
  std::unique_ptr<exec::Backend> backend;
};

}  // namespace flow::test
