// The kernel of reshape, which copy uses too.
#pragma once

#include "runtime/cpu/kernel.h"

namespace flow::cpu::fast {

Kernel prepare_reshape(const Request& request);

}  // namespace flow::cpu::fast
