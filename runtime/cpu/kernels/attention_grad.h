// The gradients of attention.
#pragma once

#include "runtime/cpu/kernel.h"

namespace flow::cpu::fast {

Kernel prepare_attention_grad(const Request& request);

}  // namespace flow::cpu::fast
