// The CUDA backend: one device.
#pragma once

#include <memory>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/libraries/nccl.h"
#include "runtime/exec/core/backend.h"

namespace flow::cuda {

/// Its programs must go before it does. `open_nccl` is called where several ranks share a job.
std::unique_ptr<exec::Backend> make_backend(std::unique_ptr<Driver> driver,
                                            std::unique_ptr<Libraries> libraries,
                                            const NcclCalls& (*open_nccl)() = cuda::open_nccl);

}  // namespace flow::cuda
