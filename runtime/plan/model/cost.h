// The number of floating-point operations of a call, counted from shapes, and an estimate of how
// long a step takes. A multiplication with its addition counts as two operations; padding, masks
// and zeros are not subtracted. The estimate is rough: enough to compare steps, and to decide
// whether a second thread is worthwhile.
#pragma once

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Returns the number of operations of a matrix product, a convolution or an attention, or 0 for
/// any other op. The counts are exact:
///   matmul       2 M N K, for each leading index
///   convolution  2 (elements of the output) (elements of one filter), also for its gradients
///   attention    2 Q K (depth + value depth) for each head; for its gradient, which computes the
///                scores again, 2 Q K (3 depth + 2 value depth)
double product_flops(const Job& job, const Step& step);

/// Returns the number of operations of a step, without those of ops that are fused onto its result:
///   products        see product_flops
///   data movement   0 (reshape, transpose, slice, concat, gather, pad, cast, copy, ...)
///   pooling         the elements of the window, for each output; max_pool2d_grad 1 for each output
///   reductions      1 for each element that they read
///   softmax         5 for each element: maximum, subtract, exp, add, divide; 4 for its gradient
///   normalization   8 for each element: 4 for mean and variance, 2 to normalize, 2 for gamma and
///                   beta; 4 with stored statistics or by the root mean square; for gradients, 9
///                   (batch, root mean square) and 13 (layer, group)
///   updates         by optimizer, per element of the variable: sgd 2, momentum 4, adam 12, ...
///   other ops       1 for each element of the result
/// For a step of shards, these are the operations of one shard; runs_of (shards.h) returns how
/// often a call runs the step.
double flops(const Job& job, const Step& step);

/// Returns the number of operations of an op that is fused onto the result of the step, counted as
/// if it were a step.
double flops(const Job& job, const Step& step, const EpilogueOp& fused);

/// Returns the bytes of all operands and results of a step, including those of fused ops, each
/// counted once. This is the memory traffic if no cache keeps any of them. For a step of shards, it
/// is the traffic of one shard.
double traffic(const Job& job, const Step& step);

/// Returns true if only training needs the step: a gradient, an update, or a step that an optimizer
/// adds.
bool is_backward(const Step& step);

/// Estimates the seconds on one thread of a fast CPU. For a step of shards, the estimate is for one
/// shard.
double estimate_seconds(const Job& job, const Step& step);

/// Estimates the seconds of a call in which no probe runs, for all shards together.
double estimate_call_seconds(const Job& job);

}  // namespace flow::plan
