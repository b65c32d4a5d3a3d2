// Kernels that add up at indices, for this and other families, and the check of indices.
#pragma once

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// Stops the run where an integer of operand `i` is outside [0, limit).
Launch check_launch(const Request& request, size_t i, int64_t limit);

/// gather_grad or scatter_add.
Kernel prepare_scatter(const Request& request);
/// A step with the operands of scatter_add that adds rows of an index one after another, in the
/// order of the indices.
Kernel prepare_ordered_scatter(const Request& request);
Kernel prepare_sparse_gather_grad(const Request& request);

}  // namespace flow::cuda
