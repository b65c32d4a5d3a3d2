// Gradients of reductions that look at the elements again.
#pragma once

#include "runtime/cpu/kernel.h"

namespace flow::cpu::fast {

Kernel prepare_reduce_extreme_grad(const Request& request);
Kernel prepare_reduce_prod_grad(const Request& request);

}  // namespace flow::cpu::fast
