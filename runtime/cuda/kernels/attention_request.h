// How the attention kernels read a request.
#pragma once

#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/loops/operands.h"

namespace flow::cuda {

/// Of a request whose operands `query` and the two after it are the query, key and value; operand
/// `mask` is the mask, where there are as many.
inline Attention attention_of(const Request& request, size_t query, size_t mask) {
  const Shape &q = request.inputs[query].shape, &k = request.inputs[query + 1].shape,
              &v = request.inputs[query + 2].shape;
  const int last = q.rank() - 1;
  Attention at{q.elements(0, last - 1),
               q[last - 1],
               k[last - 1],
               q[last],
               v[last],
               attribute<double>(request, "scale"),
               attribute<bool>(request, "causal"),
               nullptr,
               {},
               0,
               0};
  if (mask >= request.inputs.size()) return at;
  const Shape& shape = request.inputs[mask].shape;
  const auto step = [&](int axis) -> int64_t {
    const int own = axis - (q.rank() - shape.rank());
    return own < 0 || shape[own] == 1 ? 0 : stride_of(shape, own);
  };
  for (int axis = 0; axis < last - 1; ++axis) at.mask_batch.add(q[axis], {step(axis)});
  at.mask_query = step(last - 1);
  at.mask_key = step(last);
  return at;
}

/// The same with the mask's address.
inline Attention with_mask(Attention at, const Buffers& buffers, size_t mask) {
  if (mask < buffers.inputs.size()) at.mask = input<bool>(buffers, mask);
  return at;
}

}  // namespace flow::cuda
