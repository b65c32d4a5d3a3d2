// What reshape does; copy does it too.
#pragma once

#include "runtime/cuda/kernel.h"

namespace flow::cuda {

Kernel prepare_reshape(const Request& request);

}  // namespace flow::cuda
