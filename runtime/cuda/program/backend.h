// The CUDA backend: one device.
#pragma once

#include <memory>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/exec/run/backend.h"

namespace flow::cuda {

/// Its programs must go before it does.
std::unique_ptr<exec::Backend> make_backend(std::unique_ptr<Driver> driver,
                                            std::unique_ptr<Libraries> libraries);

}  // namespace flow::cuda
