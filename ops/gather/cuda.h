// Rows of floats added up at indices, for other families.
#pragma once

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// A step with the operands of scatter_add that adds rows of an index one after another, in the
/// order of the indices.
Kernel prepare_ordered_scatter(const Request& request);

}  // namespace flow::cuda
