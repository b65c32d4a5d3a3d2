// Convolutions of bfloat16 images by products of matrices.
#pragma once

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// A convolution step, or one of its gradients, of bfloat16 operands. Without a launch where this
/// one is better computed in float32: groups, images that do not lie channels-last, the gradient of
/// steps over pixels, a CPU that does not gain.
Kernel low_precision_convolution(const Request& request);

}  // namespace flow::cpu
