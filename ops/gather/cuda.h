// CUDA kernels that add rows by index, which other families also use, and the check of indices.
#pragma once

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// Returns a launch that stops the run if an integer of operand `i` is outside [0, limit).
Launch check_launch(const Request& request, size_t i, int64_t limit);

/// Prepares gather_grad or scatter_add.
Kernel prepare_scatter(const Request& request);
/// Prepares a step with the operands of scatter_add that adds the rows of each index one after
/// another, in the order of the indices.
Kernel prepare_ordered_scatter(const Request& request);
Kernel prepare_sparse_gather_grad(const Request& request);

}  // namespace flow::cuda
