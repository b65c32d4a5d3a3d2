// The records of scaled dot product attention and its gradients.
#include <cmath>
#include <optional>

#include "ops/attention/problem.h"
#include "ops/core/axes.h"
#include "ops/core/families.h"

namespace flow::ops {
namespace {

constexpr std::string_view kAttended[] = {"query", "key", "value"};

constexpr std::string_view kMaskInstead =
    "give an additive mask as `bias`, convert any other mask with `{op: cast, dtype: bool}`";

/// Returns `shape` with its last `dropped` axes replaced by `last`.
Shape with_last_extents(const Shape& shape, int dropped, const Shape& last) {
  return replaced_axes(shape, shape.rank() - dropped, dropped, last);
}

/// The operands of a call.
struct Attended {
  Call& call;
  AttentionOperands at;

  Attended(Call& of, bool gradients)
      : call(of), at(AttentionOperands::find(gradients, of.operands(), [&of](size_t i) {
          return of.dtype(i);
        })) {}

  /// Returns the shape of the query (0), the key (1) or the value (2).
  const Shape& shape(size_t i) const { return call.shape(at.query + i); }
  int rank() const { return shape(0).rank(); }
  /// The axis of heads, along which groups of query heads may share a key head, or -1 if the rank
  /// is too low.
  int heads() const { return rank() < 4 ? -1 : rank() - 3; }
  bool is_grouped() const { return heads() >= 0 && shape(1)[heads()] != shape(0)[heads()]; }
  /// The shape (..., T, S) to which the mask and the bias broadcast.
  Shape scores() const { return with_last_extents(shape(0), 1, {shape(1)[rank() - 2]}); }
  /// The shape (..., T, V) of the result.
  Shape out() const { return with_last_extents(shape(0), 1, {shape(2)[rank() - 1]}); }

  bool misfit(size_t i, Reason reason, std::string message) const {
    call.bad_operand(at.query + i, reason, std::move(message));
    return false;
  }
};

/// Checks that the number of heads of the key or value divides the query's, and that all other
/// leading dimensions are the query's.
bool leading_fit(const Attended& all, size_t i) {
  const Shape &query = all.shape(0), &other = all.shape(i);
  const auto refuse = [&](std::string_view more) {
    return all.misfit(i, Reason::kShapeMismatch,
                      fmt::format("`{}` is {}; expected the leading dimensions of `query` {}{}",
                                  kAttended[i], other.str(), query.str(), more));
  };
  if (other.rank() != query.rank()) return refuse("");
  for (int axis = 0; axis < query.rank() - 2; ++axis) {
    if (other[axis] == query[axis]) continue;
    if (axis != all.heads()) return refuse("");
    if (query[axis] % other[axis] != 0)
      return refuse(fmt::format(", or heads (dimension {}) that divide {}", axis, query[axis]));
  }
  return true;
}

bool three_fit(const Attended& all) {
  for (size_t i = 0; i < 3; ++i)
    if (all.shape(i).rank() < 2)
      return all.misfit(i, Reason::kRankMismatch,
                        fmt::format("`{}` is {}; expected at least 2 dimensions", kAttended[i],
                                    all.shape(i).str()));
  const Shape &query = all.shape(0), &key = all.shape(1), &value = all.shape(2);
  if (!leading_fit(all, 1) || !leading_fit(all, 2)) return false;
  const int last = all.rank() - 1;
  if (key[last] != query[last])
    return all.misfit(1, Reason::kShapeMismatch,
                      fmt::format("`key` {} has depth {}; expected the depth of `query` {}: {}",
                                  key.str(), key[last], query.str(), query[last]));
  if (all.heads() >= 0 && value[all.heads()] != key[all.heads()])
    return all.misfit(2, Reason::kShapeMismatch,
                      fmt::format("`value` {} has {} heads; expected those of `key` {}: {}",
                                  value.str(), value[all.heads()], key.str(), key[all.heads()]));
  if (value[last - 1] != key[last - 1])
    return all.misfit(2, Reason::kShapeMismatch,
                      fmt::format("`value` {} has {} rows; expected one per row of `key` {}: {}",
                                  value.str(), value[last - 1], key.str(), key[last - 1]));
  return true;
}

/// Returns true if the operand broadcasts to one element for each query and key.
bool broadcast_fits(const Attended& all, std::optional<size_t> operand, std::string_view name) {
  if (!operand) return true;
  const Shape scores = all.scores();
  if (broadcast(all.call.shape(*operand), scores) == scores) return true;
  all.call.bad_operand(*operand, Reason::kShapeMismatch,
                       fmt::format("`{}` is {}; expected a shape that broadcasts to {}: one "
                                   "row per query, one column per key",
                                   name, all.call.shape(*operand).str(), scores.str()));
  return false;
}

bool lengths_fit(const Attended& all) {
  if (!all.at.lengths) return true;
  const Shape &query = all.shape(0), &lengths = all.call.shape(*all.at.lengths);
  if (query.rank() < 3)
    return all.misfit(0, Reason::kRankMismatch,
                      fmt::format("`query` is {}; expected at least 3 dimensions with `lengths`, "
                                  "which has an element for each of the first",
                                  query.str()));
  if (lengths == Shape{query[0]}) return true;
  all.call.bad_operand(*all.at.lengths, Reason::kShapeMismatch,
                       fmt::format("`lengths` is {}; expected {}: an integer for each row of "
                                   "`query` {}",
                                   lengths.str(), Shape{query[0]}.str(), query.str()));
  return false;
}

bool window_fits(const Attended& all) {
  if (!all.call.attributes().find("window") || all.call.attribute<bool>("causal")) return true;
  all.call
      .bad_attribute("window", Reason::kBadAttribute,
                     "`window` without `causal: true`: a window ends at the query's own key")
      .with_hint("add `causal: true`, or use a mask");
  return false;
}

/// Checks the attribute `diagonal`, which plans contain if the call is aligned at the bottom right.
bool diagonal_fits(const Attended& all) {
  const Attribute* diagonal = all.call.attributes().find("diagonal");
  if (!diagonal) return true;
  const int rows = all.rank() - 2;
  const int64_t expected = all.shape(1)[rows] - all.shape(0)[rows];
  if (all.call.attribute<bool>("causal") && std::get<int64_t>(*diagonal) == expected) return true;
  all.call.bad_attribute("diagonal", Reason::kBadAttribute,
                         fmt::format("`diagonal` is {}; expected {}, of a causal call",
                                     std::get<int64_t>(*diagonal), expected));
  return false;
}

bool all_fit(const Attended& all) {
  return three_fit(all) && broadcast_fits(all, all.at.mask, "mask") &&
         broadcast_fits(all, all.at.bias, "bias") && lengths_fit(all) && window_fits(all) &&
         diagonal_fits(all);
}

/// Returns the axis of the scores that contains the rows of an operand that broadcasts to them.
int batch_of_broadcast(const Attended& all, size_t operand) {
  const Operand& given = all.call.operand(operand);
  return given.batch_axis < 0 ? given.batch_axis
                              : given.batch_axis + all.rank() - given.shape.rank();
}

/// Drops a batch axis along the heads if groups of heads share a key, since these heads are
/// computed together.
int without_shared_heads(const Attended& all, int batch_axis) {
  return all.is_grouped() ? batch_beside(batch_axis, all.heads()) : batch_axis;
}

/// The batch axis of a tensor (..., T) with one element per query. A query combines all keys and
/// all depths.
int batch_of_queries(const Attended& all) {
  const int last = all.rank() - 1;
  const int query = batch_before(all.call.operand(all.at.query).batch_axis, last);
  const int key = batch_before(all.call.operand(all.at.query + 1).batch_axis, last - 1);
  int batch_axis = common_batch(query, key);
  for (const auto operand : {all.at.mask, all.at.bias})
    if (operand)
      batch_axis = common_batch(batch_axis, batch_beside(batch_of_broadcast(all, *operand), last));
  if (all.at.lengths)
    batch_axis = common_batch(batch_axis, all.call.operand(*all.at.lengths).batch_axis);
  return without_shared_heads(all, batch_axis);
}

/// Drops a batch axis along the queries in causal attention with shards, because a shard does not
/// know the positions of its queries.
int without_places(const Attended& all, int batch_axis) {
  const bool placed = all.call.attribute<bool>("causal") && all.call.job().shards > 1;
  return placed ? batch_beside(batch_axis, all.rank() - 2) : batch_axis;
}

/// The batch axis of the gradient of the query.
int batch_of_query_grad(const Attended& all) {
  const int last = all.rank() - 1;
  int batch_axis = batch_of_queries(all);
  for (const size_t i : {size_t{0}, size_t{4}, size_t{5}})  // dy, out, logsumexp
    batch_axis = common_batch(batch_axis, batch_before(all.call.operand(i).batch_axis, last));
  const int value = batch_before(all.call.operand(3).batch_axis, last - 1);
  return without_places(all, without_shared_heads(all, common_batch(batch_axis, value)));
}

/// Replaces `align` by `diagonal`, the last key that query 0 attends to, unless that is key 0.
void normalize_alignment(Call& call, Attributes& attributes) {
  const bool bottom_right = call.attribute<std::string>("align") == "bottom_right";
  attributes.erase("align");
  if (!bottom_right) return;
  if (!call.attribute<bool>("causal")) {
    call.bad_attribute("align", Reason::kBadAttribute,
                       "`align` without `causal: true`: every query attends to all keys")
        .with_hint("add `causal: true`, or remove `align`");
    return;
  }
  const Shape &query = call.shape(0), &key = call.shape(1);
  if (query.rank() < 2 || key.rank() < 2) return;  // `infer` refuses these shapes
  const int64_t diagonal = key[key.rank() - 2] - query[query.rank() - 2];
  if (diagonal != 0) attributes.set("diagonal", diagonal);
}

/// Replaces a scale of NaN, which stands for the default. `infer` refuses a query without a depth.
void normalize_attention(Call& call, Attributes& attributes) {
  normalize_alignment(call, attributes);
  const Shape& query = call.shape(0);
  if (!std::isnan(call.attribute<double>("scale")) || query.rank() == 0) return;
  const int64_t depth = query[query.rank() - 1];
  attributes.set("scale", 1 / std::sqrt(static_cast<double>(depth)));
}

void infer_attention(Call& call) {
  const Attended all(call, false);
  if (!all_fit(all)) return;
  const int last = all.rank() - 1;
  const Operand &query = call.operand(0), &value = call.operand(2);
  const int batch_axis = without_places(all, batch_of_queries(all));
  call.result(query.dtype, all.out(),
              without_shared_heads(
                  all, common_batch(batch_axis, batch_beside(value.batch_axis, last - 1))));
  call.result(query.dtype, with_last_extents(query.shape, 1, {}), batch_axis);
}

/// Returns true if dy and the results of the forward op fit as well.
bool all_fit_back(const Attended& all) {
  if (!all_fit(all)) return false;
  const Shape out = all.out();
  return all.call.have_shape(0, 1, out) && all.call.have_shape(4, 5, out) &&
         all.call.have_shape(5, 6, with_last_extents(all.shape(0), 1, {}));
}

/// The shape function of the gradients of query, key and value. The operands are dy, query, key,
/// value, out, logsumexp, and the optional operands of the forward op.
void infer_attention_grad(Call& call) {
  const Attended all(call, true);
  if (!all_fit_back(all)) return;
  const int queries = all.rank() - 2, shared = batch_of_query_grad(all);
  // Gradients of keys and values are sums over queries.
  const Combine combine = shared == queries ? Combine::kSum : Combine::kNone;
  for (size_t i = 0; i < 3; ++i) {
    const Operand& operand = call.operand(all.at.query + i);
    call.result(operand.dtype, operand.shape, i > 0 ? batch_beside(shared, queries) : shared,
                combine);
  }
}

/// The shape function of the gradient of the bias, which sums over all scores that read an element.
/// The rows of the batch are those of the query. If only the bias has rows, all queries of a shard
/// share it.
void infer_attention_grad_bias(Call& call) {
  const Attended all(call, true);
  if (!all_fit_back(all)) return;
  const Operand& bias = call.operand(*all.at.bias);
  const int shared = batch_of_query_grad(all);
  const bool has_rows = shared >= 0 && call.operand(all.at.query).batch_axis == shared;
  const int own = shared - (all.rank() - bias.shape.rank());
  const bool keeps = has_rows && own >= 0 && (bias.shape[own] > 1 || bias.batch_axis == own);
  call.result(bias.dtype, bias.shape,
              keeps        ? own
              : shared < 0 ? shared
                           : kBatchReduced,
              has_rows && !keeps ? Combine::kSum : Combine::kNone);
}

/// The attributes of the gradients.
std::vector<AttributeSpec> attention_grad_attributes() {
  return {{"causal", AttributeType::kBool, "false",
           "let query i attend to keys 0 to i only, or as `align` says"},
          {"scale", AttributeType::kNumber, "1/sqrt(D)", "factor on the scores before the softmax"},
          count_attribute(
              "window",
              "with causal: number of keys that a query attends to, its own and those before it",
              "none")};
}

std::vector<AttributeSpec> attention_attributes() {
  std::vector<AttributeSpec> attributes = attention_grad_attributes();
  attributes.insert(
      attributes.begin() + 1,
      of_kind(
          Kind::kUnplanned,
          choice_attribute(
              "align", "top_left",
              "with causal, the last key of query i: key i for top_left, as in PyTorch; key i + S "
              "- T for bottom_right, as in flash-attention",
              {"top_left", "bottom_right"})));
  return attributes;
}

/// An attribute of calls that are aligned at the bottom right.
PlanAttribute diagonal_in_plans() {
  return {.name = "diagonal", .kind = Kind::kOffset, .optional = true};
}

int64_t limit_of_keys(const Shape& key) { return key.rank() < 2 ? 1 : key[key.rank() - 2] + 1; }

int64_t limit_of_key_lengths(std::span<const Shape> operands, const Attributes&) {
  return limit_of_keys(operands[1]);
}

int64_t limit_of_key_lengths_back(std::span<const Shape> operands, const Attributes&) {
  return limit_of_keys(operands[2]);
}

OperandSpec attention_mask() {
  return {.name = "mask",
          .doc = "a shape that broadcasts to (..., T, S); true lets a query attend to a key",
          .accepts = Accepts::kBool,
          .optional = true,
          .instead = kMaskInstead};
}

OperandSpec attention_bias(bool optional = true) {
  return {.name = "bias",
          .doc = "a shape that broadcasts to (..., T, S); added to the scaled scores",
          .optional = optional};
}

OperandSpec attention_lengths(LimitRule limit) {
  return optional_integers(
      "lengths", "(N), integers in [0, S]: the keys of each row; later ones are hidden", limit);
}

/// The operands dy to logsumexp, followed by `more`.
std::vector<OperandSpec> gradient_operands(std::vector<OperandSpec> more) {
  std::vector<OperandSpec> operands = {{"dy", "(..., T, V)"},
                                       {"query", "(..., T, D)"},
                                       {"key", "(..., S, D)"},
                                       {"value", "(..., S, V)"},
                                       {"out", "result of the forward op"},
                                       {"logsumexp", "second result of the forward op, (..., T)"}};
  operands.insert(operands.end(), more.begin(), more.end());
  return operands;
}

/// The operations for all pairs of a query and a key. Each pair needs `depths` dot products over
/// the depth of the query and `value_depths` over the depth of the value.
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

/// The gradients also recompute the scores.
double attention_grad_flops(std::span<const Shape> operands, const Shape&, const Attributes&) {
  return flops_of(operands[1], operands[2], operands[3], 3, 2);
}

/// The gradient of the bias recomputes the scores as well.
double attention_grad_bias_flops(std::span<const Shape> operands, const Shape&, const Attributes&) {
  return flops_of(operands[1], operands[2], operands[3], 1, 1);
}

}  // namespace

std::vector<OpSpec> attention() {
  return {
      {.name = "scaled_dot_product_attention",
       .doc = "Scaled dot-product attention (Vaswani et al., 2017); 0 for a query that attends "
              "to no key. Of (N, H, T, D), groups of heads can share a key and a value.",
       .formula = "y = softmax(scale query key^T + bias) value",
       .operands = {{"query", "(..., T, D)"},
                    {"key",
                     "(..., S, D); of (N, K, S, D), where K divides the query's H, query "
                     "head h attends to head h K / H"},
                    {"value", "(..., S, V), with the leading dimensions of the key"},
                    attention_mask(),
                    attention_bias(),
                    attention_lengths(limit_of_key_lengths)},
       .attributes = attention_attributes(),
       .plan_attributes = {diagonal_in_plans()},
       .results = {{"out"}, {.name = "logsumexp", .optional = true}},
       .normalize = normalize_attention,
       .infer = infer_attention,
       .optional_by_dtype = true,
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
                    "scaled_dot_product_attention(f32[70,4], f32[300,4], f32[300,3])",
                    "scaled_dot_product_attention(f32[2,4,5,3], f32[2,2,6,3], f32[2,2,6,2])",
                    "scaled_dot_product_attention(f32[1,6,5,4], f32[1,1,5,4], f32[1,1,5,4], "
                    "f32[6,5,5]) causal=true",
                    "scaled_dot_product_attention(f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,3], "
                    "bool[3,5], f32[2,1,1,5])",
                    "scaled_dot_product_attention(f32[3,2,4], f32[3,5,4], f32[3,5,4], i32[3])",
                    "scaled_dot_product_attention(f32[2,2,6,4], f32[2,1,6,4], f32[2,1,6,3], "
                    "bool[6,1], f32[2,6,1], i64[2]) causal=true window=3",
                    "scaled_dot_product_attention(f32[150,2], f32[150,2], f32[150,2]) "
                    "causal=true window=70",
                    "scaled_dot_product_attention(f32[2,3,4], f32[2,7,4], f32[2,7,4]) "
                    "causal=true align=bottom_right window=4",
                    "scaled_dot_product_attention(f32[2,6,4], f32[2,4,4], f32[2,4,4]) "
                    "causal=true align=bottom_right"}},
      {.name = "scaled_dot_product_attention_grad",
       .doc = "Gradients of scaled_dot_product_attention with respect to query, key and value.",
       .formula = "ds = p (dy value^T - dy . y), dquery = scale ds key, dkey = scale ds^T "
                  "query, dvalue = p^T dy",
       .operands = gradient_operands(
           {attention_mask(), attention_bias(), attention_lengths(limit_of_key_lengths_back)}),
       .attributes = attention_grad_attributes(),
       .plan_attributes = {diagonal_in_plans()},
       .results = {{"dquery"}, {"dkey"}, {"dvalue"}},
       .infer = infer_attention_grad,
       .optional_by_dtype = true,
       .linear = {0},
       .flops = {.product = attention_grad_flops},
       .internal = true},
      {.name = "scaled_dot_product_attention_grad_bias",
       .doc = "Gradient of scaled_dot_product_attention with respect to its bias.",
       .formula = "dbias = sum p (dy value^T - dy . y)",
       .operands = gradient_operands(
           {attention_bias(false), attention_mask(), attention_lengths(limit_of_key_lengths_back)}),
       .attributes = attention_grad_attributes(),
       .plan_attributes = {diagonal_in_plans()},
       .infer = infer_attention_grad_bias,
       .optional_by_dtype = true,
       .linear = {0},
       .flops = {.product = attention_grad_bias_flops},
       .internal = true},
  };
}

}  // namespace flow::ops
