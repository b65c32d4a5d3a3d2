// Sums of shortcuts, computed with what comes before and after them.
#pragma once

#include <span>

#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// The job with sums of two tensors of one shape as parts of other steps:
/// - of a batch normalization, whose result only the sum reads, and of the ReLU that alone reads
/// the
///   sum: relu(batch_norm(x) + shortcut) writes one tensor;
/// - with the gradient of a ReLU that alone reads the sum, of two gradients then: one step.
/// Values of 16 bits are rounded once then; in float32 and float64 no bit changes. `visible`:
/// tensors that others than steps read. What is fused does not depend on them, nor on probes: where
/// they read what is made no more, a probe makes it.
plan::Job fuse_residuals(const plan::Job& job, std::span<const plan::TensorId> visible);

}  // namespace flow::cuda
