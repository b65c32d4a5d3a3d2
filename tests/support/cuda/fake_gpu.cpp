// The CUDA backend on a device that is not there.
#include "tests/support/cuda/fake_gpu.h"

#include "runtime/cuda/program/backend.h"
#include "tests/support/cuda/naive_libraries.h"

namespace flow::test {

FakeGpu::FakeGpu(const FakeDevice& device, const cuda::NcclCalls& (*open_nccl)()) {
  FakeDevice made = device;
  made.loads_first = true;
  auto fake = std::make_unique<FakeDriver>(made);
  driver = fake.get();
  auto libraries = std::make_unique<cuda::NaiveLibraries>(*fake);
  backend = cuda::make_backend(std::move(fake), std::move(libraries), open_nccl);
}

}  // namespace flow::test
