// Convolutions in float64 by products of matrices.
#pragma once

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// A convolution step, or one of its gradients, of float64 operands in plain layouts.
Kernel double_convolution(const Request& request);

}  // namespace flow::cpu
