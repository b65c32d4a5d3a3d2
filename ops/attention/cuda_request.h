// How the attention kernels read a request.
#pragma once

#include <algorithm>

#include "ops/attention/attention.h"
#include "ops/attention/cuda.cuh"
#include "runtime/cuda/loops/check_range.cuh"
#include "runtime/cuda/loops/operands.h"

namespace flow::cuda {

/// One block.
static __global__ void check_attention_lengths(Integers lengths, RangeCheck check,
                                               const CallBlock* call, FaultBlock* fault) {
  check_range(lengths, check, call, fault);
}

/// Of an operand of that shape, for a query of the other.
inline ScoreOperand score_operand(const Shape& shape, const Shape& query, int64_t keys) {
  const int last = query.rank() - 1;
  const auto step = [&](int axis) -> int64_t {
    const int own = axis - (query.rank() - shape.rank());
    return own < 0 || shape[own] == 1 ? 0 : stride_of(shape, own);
  };
  ScoreOperand made;
  for (int axis = 0; axis < last - 1; ++axis) made.batches.add(query[axis], {step(axis)});
  made.query = step(last - 1);
  made.key = step(last);
  if (made.query > 0) made.rows = query[last - 1];
  if (made.key > 0) made.columns = keys;
  return made;
}

/// A call of attention, or of its gradients. Operands that are left out have no data.
struct AttentionRequest {
  AttentionRequest(const Request& request, bool gradients)
      : operands(ops::AttentionOperands::find(gradients, request.inputs.size(),
                                              [&](size_t i) { return request.inputs[i].dtype; })) {
    const Shape &q = request.inputs[operands.query].shape,
                &k = request.inputs[operands.query + 1].shape,
                &v = request.inputs[operands.query + 2].shape;
    const int last = q.rank() - 1;
    at.batches = q.elements(0, last - 1);
    at.group = at.batches / k.elements(0, last - 1);
    at.queries = q[last - 1];
    at.keys = k[last - 1];
    at.depth = q[last];
    at.value_depth = v[last];
    at.scale = attribute<double>(request, "scale");
    at.causal = attribute<bool>(request, "causal");
    at.window = request.step.attributes.has("window") ? attribute<int64_t>(request, "window")
                                                      : std::max(at.queries, at.keys);
    if (request.step.attributes.has("diagonal"))
      at.diagonal = attribute<int64_t>(request, "diagonal");
    if (operands.mask) at.mask = score_operand(request.inputs[*operands.mask].shape, q, at.keys);
    if (operands.bias) at.bias = score_operand(request.inputs[*operands.bias].shape, q, at.keys);
    if (!operands.lengths) return;
    const TensorDesc& lengths = request.inputs[*operands.lengths];
    at.lengths.dtype = lengths.dtype;
    at.batches_of_length = at.batches / q[0];
    check = add_check(request, lengths, at.keys + 1);
  }

  /// With the operands' addresses; launches the check of lengths.
  Attention bind(const Buffers& buffers, const LaunchState& state) const {
    Attention bound = at;
    if (operands.mask) bound.mask.data = buffers.inputs[*operands.mask];
    if (operands.bias) bound.bias.data = buffers.inputs[*operands.bias];
    if (!operands.lengths) return bound;
    bound.lengths.data = buffers.inputs[*operands.lengths];
    launch(state.driver, state.stream, "attention_lengths",
           LaunchShape{{1}, {kThreads}, kThreads / kWarp * sizeof(int64_t)},
           check_attention_lengths, bound.lengths, check, state.call, state.fault);
    return bound;
  }

  ops::AttentionOperands operands;
  Attention at;
  RangeCheck check{};
};

}  // namespace flow::cuda
