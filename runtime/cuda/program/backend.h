// The CUDA backend for one device.
#pragma once

#include <memory>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/libraries/nccl.h"
#include "runtime/exec/core/backend.h"

namespace flow::cuda {

/// Returns the backend, which must outlive its programs. `open_nccl` is called if several ranks
/// share a job.
std::unique_ptr<exec::Backend> make_backend(std::unique_ptr<Driver> driver,
                                            std::unique_ptr<Libraries> libraries,
                                            const NcclCalls& (*open_nccl)() = cuda::open_nccl);

}  // namespace flow::cuda
