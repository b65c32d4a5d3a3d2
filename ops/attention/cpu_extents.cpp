// The extents of an attention call, and where its mask and its bias lie.
#include <utility>

#include "ops/attention/attention.h"
#include "ops/attention/cpu.h"

namespace flow::cpu {

Attention::Attention(const Request& request, bool gradients) {
  const auto at = ops::AttentionOperands::find(gradients, request.inputs.size(),
                                               [&](size_t i) { return request.inputs[i].dtype; });
  const Shape &q = request.inputs[at.query].shape, &k = request.inputs[at.query + 1].shape,
              &v = request.inputs[at.query + 2].shape;
  const int rank = q.rank();
  batches = q.elements(0, rank - 2);
  group = batches / k.elements(0, rank - 2);
  queries = q[rank - 2];
  keys = k[rank - 2];
  depth = q[rank - 1];
  value_depth = v[rank - 1];
  scale = request.step.attributes.get<double>("scale");
  causal = request.step.attributes.get<bool>("causal");
  if (request.step.attributes.has("window"))
    window = request.step.attributes.get<int64_t>("window");
  if (request.step.attributes.has("diagonal"))
    diagonal = request.step.attributes.get<int64_t>("diagonal");
  if (at.mask) mask.emplace(*at.mask, request.inputs[*at.mask].shape, q, keys);
  if (at.bias) bias.emplace(*at.bias, request.inputs[*at.bias].shape, q, keys);
  if (!at.lengths) return;
  lengths_operand_ = *at.lengths;
  lengths_.emplace(request, request.inputs[*at.lengths], keys + 1);
}

ScoreOperand::ScoreOperand(size_t at, const Shape& shape, const Shape& query, int64_t keys)
    : operand(at), elements(shape.elements()), rows(1), columns(1), offsets{0} {
  const int rank = query.rank();
  const auto step = [&](int axis) -> int64_t {
    const int own = axis - (rank - shape.rank());
    return own < 0 || shape[own] == 1 ? 0 : shape.elements(own + 1, shape.rank());
  };
  query_step = step(rank - 2);
  key_step = step(rank - 1);
  if (query_step > 0) rows = query[rank - 2];
  if (key_step > 0) columns = keys;
  for (int axis = 0; axis < rank - 2; ++axis) {
    std::vector<int64_t> inner;
    for (const int64_t offset : offsets)
      for (int64_t i = 0; i < query[axis]; ++i) inner.push_back(offset + i * step(axis));
    offsets = std::move(inner);
  }
}

}  // namespace flow::cpu
