// Kernels of average pooling over images.
#pragma once

#include "runtime/cpu/kernel.h"

namespace flow::cpu::fast {

Kernel prepare_avg_pool2d(const Request& request);
Kernel prepare_avg_pool2d_grad(const Request& request);

}  // namespace flow::cpu::fast
