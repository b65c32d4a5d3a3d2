// The kernel of reshape, which copy uses too.
#pragma once

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

Kernel prepare_reshape(const Request& request);

}  // namespace flow::cuda
