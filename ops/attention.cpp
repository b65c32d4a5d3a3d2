// Scaled dot product attention.
#include <fmt/format.h>

#include <cmath>

#include "ops/axes.h"
#include "ops/broadcast.h"
#include "ops/families.h"

namespace flow::ops {
namespace {

constexpr std::string_view kAttended[] = {"query", "key", "value"};

constexpr std::string_view kMaskInstead =
    "convert an additive mask with `{op: equal, in: [mask, 0]}`, any other mask with `{op: cast, "
    "dtype: bool}`";

/// `shape` without its last `dropped` axes, followed by `last`.
Shape with_last_extents(const Shape& shape, int dropped, std::initializer_list<int64_t> last) {
  std::vector<int64_t> extents(shape.begin(), shape.end() - dropped);
  extents.insert(extents.end(), last);
  return Shape(std::move(extents));
}

/// The operands of a call, the query first of the three.
struct Attended {
  Call& call;
  size_t query;

  const Shape& shape(size_t i) const { return call.shape(query + i); }
  int rank() const { return shape(0).rank(); }
  bool has_mask(size_t mask) const { return call.operands() > mask; }
  /// [..., T, S], to which the mask broadcasts.
  Shape scores() const { return with_last_extents(shape(0), 1, {shape(1)[rank() - 2]}); }
  /// [..., T, V]
  Shape out() const { return with_last_extents(shape(0), 1, {shape(2)[rank() - 1]}); }
};

bool three_fit(const Attended& all) {
  const auto misfit = [&](size_t i, Reason reason, std::string message) {
    all.call.bad_operand(all.query + i, reason, std::move(message));
    return false;
  };
  for (size_t i = 0; i < 3; ++i)
    if (all.shape(i).rank() < 2)
      return misfit(i, Reason::kRankMismatch,
                    fmt::format("`{}` is {}; expected at least 2 dimensions", kAttended[i],
                                all.shape(i).str()));
  const Shape &query = all.shape(0), &key = all.shape(1), &value = all.shape(2);
  for (size_t i = 1; i < 3; ++i)
    if (with_last_extents(all.shape(i), 2, {}) != with_last_extents(query, 2, {}))
      return misfit(i, Reason::kShapeMismatch,
                    fmt::format("`{}` is {}; expected the leading dimensions of `query` {}",
                                kAttended[i], all.shape(i).str(), query.str()));
  const int last = all.rank() - 1;
  if (key[last] != query[last])
    return misfit(1, Reason::kShapeMismatch,
                  fmt::format("`key` {} has depth {}; expected the depth of `query` {}: {}",
                              key.str(), key[last], query.str(), query[last]));
  if (value[last - 1] != key[last - 1])
    return misfit(2, Reason::kShapeMismatch,
                  fmt::format("`value` {} has {} rows; expected one per row of `key` {}: {}",
                              value.str(), value[last - 1], key.str(), key[last - 1]));
  return true;
}

bool mask_fits(const Attended& all, size_t mask) {
  if (!all.has_mask(mask)) return true;
  const Shape scores = all.scores();
  if (broadcast(all.call.shape(mask), scores) == scores) return true;
  all.call.bad_operand(mask, Reason::kShapeMismatch,
                       fmt::format("`mask` is {}; expected a shape that broadcasts to {}: one "
                                   "row per query, one column per key",
                                   all.call.shape(mask).str(), scores.str()));
  return false;
}

/// The batch axis of [..., T], one for each query. Keys mix; so do depths.
int batch_of_queries(const Attended& all, size_t mask) {
  const int last = all.rank() - 1;
  const int query = batch_before(all.call.operand(all.query).batch_axis, last);
  const int key = batch_before(all.call.operand(all.query + 1).batch_axis, last - 1);
  const int both = common_batch(query, key);
  if (!all.has_mask(mask)) return both;
  const Operand& given = all.call.operand(mask);
  const int own =
      given.batch_axis < 0 ? given.batch_axis : given.batch_axis + all.rank() - given.shape.rank();
  return common_batch(both, batch_beside(own, last));
}

/// Causal attention depends on the places of queries, which a shard of them does not know.
int without_places(const Attended& all, int batch_axis) {
  const bool placed = all.call.attribute<bool>("causal") && all.call.job().shards > 1;
  return placed ? batch_beside(batch_axis, all.rank() - 2) : batch_axis;
}

/// The batch axis of the gradient of the query.
int batch_of_query_grad(const Attended& all) {
  const int last = all.rank() - 1;
  int batch_axis = batch_of_queries(all, 6);
  for (const size_t i : {size_t{0}, size_t{4}, size_t{5}})  // dy, out, logsumexp
    batch_axis = common_batch(batch_axis, batch_before(all.call.operand(i).batch_axis, last));
  const int value = batch_before(all.call.operand(3).batch_axis, last - 1);
  return without_places(all, common_batch(batch_axis, value));
}

/// Replaces NaN, which stands for the default scale. `infer` refuses a query without a depth.
void normalise_attention(Call& call, Attributes& attributes) {
  const Shape& query = call.shape(0);
  if (!std::isnan(call.attribute<double>("scale")) || query.rank() == 0) return;
  const int64_t depth = query[query.rank() - 1];
  attributes.set("scale", 1 / std::sqrt(static_cast<double>(depth)));
}

void infer_attention(Call& call) {
  const Attended all{call, 0};
  if (!three_fit(all) || !mask_fits(all, 3)) return;
  const int last = all.rank() - 1;
  const Operand &query = call.operand(0), &value = call.operand(2);
  const int batch_axis = without_places(all, batch_of_queries(all, 3));
  call.result(query.dtype, all.out(),
              common_batch(batch_axis, batch_beside(value.batch_axis, last - 1)));
  call.result(query.dtype, with_last_extents(query.shape, 1, {}), batch_axis);
}

/// Operands: dy, query, key, value, out, logsumexp, mask.
void infer_attention_grad(Call& call) {
  const Attended all{call, 1};
  if (!three_fit(all) || !mask_fits(all, 6)) return;
  const Shape out = all.out();
  if (!call.have_shape(0, 1, out) || !call.have_shape(4, 5, out) ||
      !call.have_shape(5, 6, with_last_extents(all.shape(0), 1, {})))
    return;
  const int queries = all.rank() - 2, shared = batch_of_query_grad(all);
  // Gradients of keys and values are sums over queries.
  const Combine combine = shared == queries ? Combine::kSum : Combine::kNone;
  for (size_t i = 0; i < 3; ++i) {
    const Operand& operand = call.operand(all.query + i);
    call.result(operand.dtype, operand.shape, i > 0 ? batch_beside(shared, queries) : shared,
                combine);
  }
}

std::vector<AttributeSpec> attention_attributes() {
  return {
      {"causal", AttributeType::kBool, "false",
       "let query i attend to keys 0 to i only (aligned at the top left)"},
      {"scale", AttributeType::kNumber, "1/sqrt(D)", "factor on the scores before the softmax"}};
}

OperandSpec attention_mask() {
  return {.name = "mask",
          .doc = "a shape that broadcasts to (..., T, S); true lets a query attend to a key",
          .accepts = Accepts::kBool,
          .optional = true,
          .instead = kMaskInstead};
}

/// A score for each query and key; each made from `depths` of the two and `value_depths` of the
/// value.
double flops_of(const Shape& query, const Shape& key, const Shape& value, double depths,
                double value_depths) {
  const int last = key.rank() - 1;
  const auto depth = static_cast<double>(key[last]);
  const double scores =
      static_cast<double>(query.elements()) / depth * static_cast<double>(key[last - 1]);
  return 2 * scores * (depths * depth + value_depths * static_cast<double>(value[last]));
}

double attention_flops(std::span<const Shape> operands, const Shape&, const Attributes&) {
  return flops_of(operands[0], operands[1], operands[2], 1, 1);
}

/// It computes the scores again.
double attention_grad_flops(std::span<const Shape> operands, const Shape&, const Attributes&) {
  return flops_of(operands[1], operands[2], operands[3], 3, 2);
}

}  // namespace

std::span<const OpSpec> attention() {
  static const OpSpec kOps[] = {
      {
          .name = "scaled_dot_product_attention",
          .doc = "Scaled dot-product attention (Vaswani et al., 2017); 0 for a query that attends "
                 "to no key.",
          .formula = "y = softmax(scale query key^T) value",
          .operands = {{"query", "(..., T, D)"},
                       {"key", "(..., S, D)"},
                       {"value", "(..., S, V)"},
                       attention_mask()},
          .attributes = attention_attributes(),
          .plan_attributes = {{"causal", Kind::kFlag}, {"scale", Kind::kFinite}},
          .results = {{"out"}, {.name = "logsumexp", .optional = true}},
          .normalise = normalise_attention,
          .infer = infer_attention,
          .flops = {.product = attention_flops},
          .examples = {"scaled_dot_product_attention(f32[3,4], f32[5,4], f32[5,2])",
                       "scaled_dot_product_attention(f32[2,3,5,4], f32[2,3,5,4], f32[2,3,5,4]) "
                       "causal=true",
                       "scaled_dot_product_attention(f32[2,6,3], f32[2,4,3], f32[2,4,3]) "
                       "causal=true scale=2",
                       "scaled_dot_product_attention(f32[2,3,4], f32[2,2,4], f32[2,2,3], "
                       "bool[3,2])",
                       "scaled_dot_product_attention(f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,3], "
                       "bool[2,1,1,5]) causal=true",
                       "scaled_dot_product_attention(f32[70,4], f32[300,4], f32[300,3])"},
      },
      {
          .name = "scaled_dot_product_attention_grad",
          .doc = "Gradients of scaled_dot_product_attention with respect to query, key and value.",
          .formula = "ds = p (dy value^T - dy . y), dquery = scale ds key, dkey = scale ds^T "
                     "query, dvalue = p^T dy",
          .operands = {{"dy", "(..., T, V)"},
                       {"query", "(..., T, D)"},
                       {"key", "(..., S, D)"},
                       {"value", "(..., S, V)"},
                       {"out", "result of the forward op"},
                       {"logsumexp", "second result of the forward op, (..., T)"},
                       attention_mask()},
          .attributes = attention_attributes(),
          .plan_attributes = {{"causal", Kind::kFlag}, {"scale", Kind::kFinite}},
          .results = {{"dquery"}, {"dkey"}, {"dvalue"}},
          .infer = infer_attention_grad,
          .linear = {0},
          .flops = {.product = attention_grad_flops},
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::ops
