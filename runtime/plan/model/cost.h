// Floating-point operations of a call, counted from shapes (a multiplication with its addition
// counts as two; padding, masks and zeros are not subtracted), and how long a step will take,
// roughly: enough to compare steps, and to decide whether a second thread pays.
#pragma once

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Operations of a matrix product, a convolution or an attention; 0 for any other op. Exact:
///   matmul       2 M N K, for each leading index
///   convolution  2 (elements of the output) (elements of one filter); the same for its gradients
///   attention    2 Q K (depth + value depth) for each head; its gradient 2 Q K (3 depth + 2 value
///                depth), as it computes the scores again
double product_flops(const Job& job, const Step& step);

/// Operations of a step, without those fused onto its result:
///   products        see product_flops
///   data movement   0 (reshape, transpose, slice, concat, gather, pad, cast, copy, ...)
///   pooling         the window's elements for each output; max_pool2d_grad 1 for each
///   reductions      1 for each element that they read
///   softmax         5 for each element: maximum, subtract, exp, add, divide; its gradient 4
///   normalization   8 for each element: 4 for mean and variance, 2 to normalize, 2 for gamma and
///                   beta; 4 with stored statistics or by the root mean square; gradients 9 (batch,
///                   root mean square) and 13 (layer, group)
///   updates         by optimizer, for each element of the variable: sgd 2, momentum 4, adam 12,
///   ... all others      1 for each element of the result
/// Of a step of shards: for one of them; runs_of (shards.h) says how often a call runs it.
double flops(const Job& job, const Step& step);

/// Operations of an op that is fused onto the step's result: as if it were a step.
double flops(const Job& job, const Step& step, const EpilogueOp& fused);

/// Bytes of a step's operands and results, those of fused ops too, each counted once: what it reads
/// and writes where no cache keeps any of it. Of a step of shards: for one of them.
double traffic(const Job& job, const Step& step);

/// Does only training need the step: a gradient, an update, or what an optimizer adds?
bool is_backward(const Step& step);

/// Seconds on one thread of a fast CPU; of a step of shards, for one of them.
double estimate_seconds(const Job& job, const Step& step);

/// Of a call in which no probe runs, of all shards.
double estimate_call_seconds(const Job& job);

}  // namespace flow::plan
