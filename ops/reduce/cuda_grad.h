// Gradients of reductions that look at the elements again.
#pragma once

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

Kernel prepare_reduce_extreme_grad(const Request& request);
Kernel prepare_reduce_prod_grad(const Request& request);

}  // namespace flow::cuda
