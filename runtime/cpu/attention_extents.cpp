// The extents of an attention call, and where its mask lies.
#include "runtime/cpu/attention.h"
#include "runtime/cpu/reference/index.h"

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
  const int rank = mask.rank();
  const bool has_keys = rank > 0 && mask[rank - 1] > 1;
  const bool has_queries = rank > 1 && mask[rank - 2] > 1;
  mask_key_step_ = has_keys ? 1 : 0;
  mask_query_step_ = has_queries ? mask[rank - 1] : 0;
  const Shape batch = query.first(query.rank() - 2), own = mask.first(std::max(0, rank - 2));
  const int64_t matrix = mask.elements(own.rank(), rank);
  for (int64_t i = 0; i < batches; ++i)
    mask_offsets_.push_back(reference::operand_index(batch, i, own) * matrix);
}

}  // namespace flow::cpu
