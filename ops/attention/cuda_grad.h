// The gradients of attention.
#pragma once

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

Kernel prepare_scaled_dot_product_attention_grad(const Request& request);
Kernel prepare_scaled_dot_product_attention_grad_bias(const Request& request);

}  // namespace flow::cuda
