// The gradients of attention.
#pragma once

#include "runtime/cpu/kernel.h"

namespace flow::cpu::fast {

Kernel prepare_attention_grad(const Request& request);
Kernel prepare_attention_grad_bias(const Request& request);

}  // namespace flow::cpu::fast
