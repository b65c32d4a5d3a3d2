// Scaled dot product attention.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ir/builder.h"
#include "compiler/ops/axes.h"
#include "compiler/ops/broadcast.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

constexpr std::string_view kAttention = "scaled_dot_product_attention";
constexpr std::string_view kAttentionGrad = "scaled_dot_product_attention_grad";
constexpr std::string_view kNames[] = {"query", "key", "value"};

constexpr std::string_view kMaskInstead =
    "convert an additive mask with `{op: equal, in: [mask, 0]}`, any other mask with `{op: cast, "
    "dtype: bool}`";

/// `shape` without its last `dropped` axes, followed by `last`.
Shape with_last(const Shape& shape, int dropped, std::initializer_list<int64_t> last) {
  std::vector<int64_t> extents(shape.begin(), shape.end() - dropped);
  extents.insert(extents.end(), last);
  return Shape(std::move(extents));
}

/// The operands of a call, the query first of the three.
struct Operands {
  Inference& inference;
  size_t query;

  const Shape& shape(size_t i) const { return inference.shape(query + i); }
  int rank() const { return shape(0).rank(); }
  bool has_mask(size_t mask) const { return inference.operands() > mask; }
  /// [..., T, S], to which the mask broadcasts.
  Shape scores() const { return with_last(shape(0), 1, {shape(1)[rank() - 2]}); }
};

bool three_fit(const Operands& all) {
  Inference& inference = all.inference;
  const auto misfit = [&](size_t i, Diagnosis diagnosis, std::string message) {
    inference.bad_operand(all.query + i, diagnosis, std::move(message));
    return false;
  };
  for (size_t i = 0; i < 3; ++i)
    if (all.shape(i).rank() < 2)
      return misfit(
          i, Diagnosis::kRankMismatch,
          fmt::format("`{}` is {}; expected at least 2 dimensions", kNames[i], all.shape(i).str()));
  const Shape &query = all.shape(0), &key = all.shape(1), &value = all.shape(2);
  for (size_t i = 1; i < 3; ++i)
    if (with_last(all.shape(i), 2, {}) != with_last(query, 2, {}))
      return misfit(i, Diagnosis::kShapeMismatch,
                    fmt::format("`{}` is {}; expected the leading dimensions of `query` {}",
                                kNames[i], all.shape(i).str(), query.str()));
  const int last = all.rank() - 1;
  if (key[last] != query[last])
    return misfit(1, Diagnosis::kShapeMismatch,
                  fmt::format("`key` {} has depth {}; expected the depth of `query` {}: {}",
                              key.str(), key[last], query.str(), query[last]));
  if (value[last - 1] != key[last - 1])
    return misfit(2, Diagnosis::kShapeMismatch,
                  fmt::format("`value` {} has {} rows; expected one per row of `key` {}: {}",
                              value.str(), value[last - 1], key.str(), key[last - 1]));
  return true;
}

bool mask_fits(const Operands& all, size_t mask) {
  if (!all.has_mask(mask)) return true;
  const Shape scores = all.scores();
  if (broadcast(all.inference.shape(mask), scores) == scores) return true;
  all.inference.bad_operand(mask, Diagnosis::kShapeMismatch,
                            fmt::format("`mask` is {}; expected a shape that broadcasts to {}: one "
                                        "row per query, one column per key",
                                        all.inference.shape(mask).str(), scores.str()));
  return false;
}

/// The row axis of [..., T], one for each query. Keys mix; so do depths.
int rows_of_queries(const Operands& all, size_t mask) {
  const int last = all.rank() - 1;
  const int query = rows_before(all.inference.operand(all.query).rows, last);
  const int key = rows_before(all.inference.operand(all.query + 1).rows, last - 1);
  int rows = common_rows(query, key);
  if (!all.has_mask(mask)) return rows;
  const ir::Value& given = all.inference.operand(mask);
  const int own = given.rows < 0 ? given.rows : given.rows + all.rank() - given.shape.rank();
  return common_rows(rows, rows_beside(own, last));
}

/// The default scale in place of one that is no number.
void normalise_scale(Inference& inference, int64_t depth) {
  if (std::isnan(inference.attribute<double>("scale")))
    inference.normalise("scale", 1 / std::sqrt(static_cast<double>(depth)));
}

void infer_attention(Inference& inference) {
  const Operands all{inference, 0};
  if (!three_fit(all) || !mask_fits(all, 3)) return;
  const int last = all.rank() - 1;
  const ir::Value &query = inference.operand(0), &value = inference.operand(2);
  normalise_scale(inference, query.shape[last]);
  const int rows = rows_of_queries(all, 3);
  inference.result(query.dtype, with_last(query.shape, 1, {value.shape[last]}),
                   common_rows(rows, rows_beside(value.rows, last - 1)));
  inference.result(query.dtype, with_last(query.shape, 1, {}), rows);
}

/// Operands: dy, query, key, value, out, logsumexp, mask.
void infer_attention_grad(Inference& inference) {
  const Operands all{inference, 1};
  if (!three_fit(all) || !mask_fits(all, 6)) return;
  const Shape out = with_last(all.shape(0), 1, {all.shape(2)[all.rank() - 1]});
  if (!have_shape(inference, 0, 1, out) || !have_shape(inference, 4, 5, out) ||
      !have_shape(inference, 5, 6, with_last(all.shape(0), 1, {})))
    return;
  const int last = all.rank() - 1;
  const int shared = rows_of_queries(all, 6);
  for (size_t i = 0; i < 3; ++i) {
    const ir::Value& operand = inference.operand(all.query + i);
    inference.result(operand.dtype, operand.shape, i > 0 ? rows_beside(shared, last - 1) : shared);
  }
}

std::vector<ir::ValueId> attention_gradient(GradientContext& context) {
  std::vector<ir::ValueId> operands = {context.gradient(), context.operand(0), context.operand(1),
                                       context.operand(2), context.result(0),  context.result(1)};
  if (context.node.operands.size() > 3) operands.push_back(context.operand(3));
  AttributeSpans spans;
  spans.op = context.node.span;
  std::vector<ir::ValueId> gradients =
      context.builder.add(*find_op(kAttentionGrad), context.names[0], std::move(operands),
                          context.node.attributes, spans);
  gradients.resize(context.node.operands.size());
  return gradients;
}

std::vector<AttributeDef> attributes() {
  return {
      {"causal", AttributeType::kBool, "false",
       "let query i attend to keys 0 to i only (aligned at the top left)"},
      {"scale", AttributeType::kNumber, "1/sqrt(D)", "factor on the scores before the softmax"}};
}

constexpr std::string_view kMaskDoc =
    "a shape that broadcasts to (..., T, S); true lets a query attend to a key";

}  // namespace

std::span<const OpDef> attention() {
  static const OpDef kOps[] = {
      {
          .name = kAttention,
          .doc = "Scaled dot-product attention (Vaswani et al., 2017); 0 for a query that attends "
                 "to no key.",
          .formula = "y = softmax(scale query key^T) value",
          .operands = {{"query", "(..., T, D)"},
                       {"key", "(..., S, D)"},
                       {"value", "(..., S, V)"},
                       {.name = "mask",
                        .doc = kMaskDoc,
                        .accepts = Accepts::kBool,
                        .optional = true,
                        .instead = kMaskInstead}},
          .attributes = attributes(),
          .results = {"out", "logsumexp"},
          .infer = infer_attention,
          .gradient = attention_gradient,
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
          .name = kAttentionGrad,
          .doc = "Gradients of scaled_dot_product_attention with respect to query, key and value.",
          .formula = "ds = p (dy value^T - dy . y), dquery = scale ds key, dkey = scale ds^T "
                     "query, dvalue = p^T dy",
          .operands = {{"dy", "(..., T, V)"},
                       {"query", "(..., T, D)"},
                       {"key", "(..., S, D)"},
                       {"value", "(..., S, V)"},
                       {"out", "result of the forward op"},
                       {"logsumexp", "second result of the forward op, (..., T)"},
                       {.name = "mask",
                        .doc = kMaskDoc,
                        .accepts = Accepts::kBool,
                        .optional = true,
                        .instead = kMaskInstead}},
          .attributes = attributes(),
          .results = {"dquery", "dkey", "dvalue"},
          .infer = infer_attention_grad,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::defs
