// The shape rules of attention.
#include "runtime/plan/signature.h"

namespace flow::plan {
namespace {

Shape with_last(const Shape& shape, int dropped, std::initializer_list<int64_t> last) {
  std::vector<int64_t> extents(shape.begin(), shape.end() - dropped);
  extents.insert(extents.end(), last);
  return Shape(std::move(extents));
}

void require_mask(const Call& call, const Shape& mask, const Shape& scores) {
  bool fits = mask.rank() <= scores.rank();
  for (int axis = 0; fits && axis < mask.rank(); ++axis) {
    const int64_t extent = scores[axis + scores.rank() - mask.rank()];
    fits = mask[axis] == 1 || mask[axis] == extent;
  }
  call.require(fits, "mask {} does not broadcast to {}", mask.str(), scores.str());
}

/// Operands query, key and value from `first` on, and perhaps `mask`. The shape of the result.
Shape attended(const Call& call, size_t first, size_t mask) {
  const Shape &query = call.shape(first), &key = call.shape(first + 1),
              &value = call.shape(first + 2);
  const int rank = query.rank();
  call.require(rank >= 2 && key.rank() == rank && value.rank() == rank,
               "query {}, key {} and value {} must have the same rank of at least 2", query.str(),
               key.str(), value.str());
  const Shape leading = with_last(query, 2, {});
  call.require(with_last(key, 2, {}) == leading && with_last(value, 2, {}) == leading &&
                   key[rank - 1] == query[rank - 1] && value[rank - 2] == key[rank - 2],
               "shapes do not match: query {}, key {}, value {}", query.str(), key.str(),
               value.str());
  if (mask < call.operands().size())
    require_mask(call, call.shape(mask), with_last(query, 1, {key[rank - 2]}));
  return with_last(query, 1, {value[rank - 1]});
}

}  // namespace

namespace rules {

void attention(Call& call) {
  const Shape out = attended(call, 0, 3);
  call.result(call.number(), out);
  call.result(call.number(), with_last(out, 1, {}));
}

void attention_grad(Call& call) {
  const Shape out = attended(call, 1, 6), rows = with_last(out, 1, {});
  call.require(call.shape(0) == out && call.shape(4) == out && call.shape(5) == rows,
               "shapes do not match: dy {}, out {}, logsumexp {}, result {}", call.shape(0).str(),
               call.shape(4).str(), call.shape(5).str(), out.str());
  for (size_t i = 1; i < 4; ++i) call.result(call.number(), call.shape(i));
}

}  // namespace rules

}  // namespace flow::plan
