// The extents of an attention call, and where its mask lies.
#include "runtime/cpu/kernels/attention.h"

#include <utility>

namespace flow::cpu {

Attention::Attention(const Request& request, size_t query, size_t mask) : mask_operand_(mask) {
  const Shape &q = request.inputs[query].shape, &k = request.inputs[query + 1].shape,
              &v = request.inputs[query + 2].shape;
  const int rank = q.rank();
  batches = q.elements(0, rank - 2);
  queries = q[rank - 2];
  keys = k[rank - 2];
  depth = q[rank - 1];
  value_depth = v[rank - 1];
  scale = request.step.attributes.get<double>("scale");
  causal = request.step.attributes.get<bool>("causal");
  if (mask < request.inputs.size()) describe_mask(request.inputs[mask].shape, q);
}

/// The mask broadcasts to [..., queries, keys].
void Attention::describe_mask(const Shape& mask, const Shape& query) {
  const int rank = query.rank();
  const auto step = [&](int axis) -> int64_t {
    const int own = axis - (rank - mask.rank());
    return own < 0 || mask[own] == 1 ? 0 : mask.elements(own + 1, mask.rank());
  };
  mask_query_step_ = step(rank - 2);
  mask_key_step_ = step(rank - 1);
  mask_offsets_ = {0};
  for (int axis = 0; axis < rank - 2; ++axis) {
    std::vector<int64_t> offsets;
    for (const int64_t offset : mask_offsets_)
      for (int64_t i = 0; i < query[axis]; ++i) offsets.push_back(offset + i * step(axis));
    mask_offsets_ = std::move(offsets);
  }
}

}  // namespace flow::cpu
