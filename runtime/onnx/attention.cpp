// The attention operator.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "ops/attention/problem.h"
#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

/// Writes the nodes of attention. Opset 17 has no operator for it.
class AttentionExport {
 public:
  explicit AttentionExport(StepExport& step)
      : step_(step),
        at_(ops::AttentionOperands::find(false, step.operands(),
                                         [&](size_t i) { return step.in(i).dtype; })),
        rank_(query().rank()),
        group_(rank_ > 3 ? query()[rank_ - 3] / step.in(1).shape[rank_ - 3] : 1) {}

  /// Writes the nodes. A query that attends to no key gets 0, not the mean of all values.
  void write() {
    for (size_t i = 0; i < step_.operands(); ++i)
      if (i != at_.lengths) step_.fix_batch_of_constant(i, i < 3 ? 2 : 0);
    const std::string turned = step_.transposed(step_.in(1).name, rank_);
    std::string scores = step_.node("Mul", {product(step_.in(0).name, query(), turned,
                                                    with_last(step_.in(1).shape, depth(), keys())),
                                            step_.number(step_.attribute<double>("scale"))});
    if (at_.bias) scores = step_.node("Add", {scores, step_.in(*at_.bias).name});
    const std::string mask = mask_of_all();
    if (!mask.empty()) scores = step_.node("Where", {mask, scores, step_.number(lowest())});
    std::string weights = step_.node("Softmax", {scores}, {{"axis", -1}});
    if (may_see_nothing()) weights = step_.node("Where", {mask, weights, step_.number(0)});
    product_to_result(weights);
    if (step_.is_read(1))
      step_.result("ReduceLogSumExp", {scores}, {{"axes", Integers{rank_ - 1}}, {"keepdims", 0}},
                   1);
  }

 private:
  const Shape& query() const { return step_.in(0).shape; }
  int64_t queries() const { return query()[rank_ - 2]; }
  int64_t keys() const { return step_.in(1).shape[rank_ - 2]; }
  int64_t depth() const { return query()[rank_ - 1]; }
  double lowest() const {
    return step_.in().dtype == DType::kFloat64 ? std::numeric_limits<double>::lowest()
                                               : double{std::numeric_limits<float>::lowest()};
  }
  /// Returns true if a query may attend to no key. With only a causal mask, this happens to queries
  /// before the first key, or with a window after the last key.
  bool may_see_nothing() const {
    return at_.mask || at_.lengths || diagonal() < 0 ||
           (window() > 0 && queries() + diagonal() - window() >= keys());
  }
  int64_t diagonal() const {
    return step_.has("diagonal") ? step_.attribute<int64_t>("diagonal") : 0;
  }
  int64_t window() const { return step_.has("window") ? step_.attribute<int64_t>("window") : 0; }

  static Shape with_last(Shape shape, int64_t rows, int64_t columns) {
    shape[shape.rank() - 2] = rows;
    shape[shape.rank() - 1] = columns;
    return shape;
  }

  /// Returns the shape [N, H, ...] as [N, K, H / K, ...]. K is the number of key heads, each of
  /// which a group of query heads shares.
  Shape grouped(const Shape& shape, int64_t heads) const {
    std::vector<int64_t> extents(shape.begin(), shape.end());
    extents[static_cast<size_t>(rank_) - 3] = step_.in(1).shape[rank_ - 3];
    extents.insert(extents.end() - 2, heads);
    return Shape(std::move(extents));
  }

  std::string reshape(const std::string& value, const Shape& shape) {
    const int batch_axis = step_.in(0).batch_axis;
    const bool split = shape.rank() > rank_;
    if (batch_axis == rank_ - 3) step_.fix_batch();
    if (batch_axis < 0 || batch_axis == rank_ - 3) return step_.reshape(value, shape, -1);
    return step_.reshape(value, shape, batch_axis + (split && batch_axis > rank_ - 3 ? 1 : 0));
  }

  /// Writes a product of matrices with keys or values, which groups of heads share.
  std::string product(const std::string& left, const Shape& left_shape, const std::string& right,
                      const Shape& right_shape) {
    if (group_ == 1) return step_.node("MatMul", {left, right});
    const std::string made = step_.node(
        "MatMul", {reshape(left, grouped(left_shape, group_)), reshape_shared(right, right_shape)});
    return reshape(made, with_last(query(), left_shape[rank_ - 2], right_shape[rank_ - 1]));
  }

  /// Reshapes keys or values for grouped heads. They may have a different batch axis than the
  /// query.
  std::string reshape_shared(const std::string& value, const Shape& shape) {
    const int batch_axis = step_.in(1).batch_axis;
    const bool leads = batch_axis >= 0 && batch_axis < rank_ - 3;
    if (batch_axis >= 0 && !leads) step_.fix_batch();
    return step_.reshape(value, grouped(shape, 1), leads ? batch_axis : -1);
  }

  void product_to_result(const std::string& weights) {
    const Value& value = step_.in(2);
    if (group_ == 1) return step_.result("MatMul", {weights, value.name});
    const Shape scores = with_last(query(), queries(), keys());
    step_.result("Identity", {product(weights, scores, value.name, value.shape)});
  }

  /// Returns a mask that is true where a query attends to a key. It is empty if every query attends
  /// to all keys.
  std::string mask_of_all() {
    std::string mask = at_.mask ? step_.in(*at_.mask).name : "";
    if (step_.attribute<bool>("causal")) mask = both(mask, causal_mask());
    return at_.lengths ? both(mask, mask_of_lengths()) : mask;
  }
  std::string both(const std::string& mask, const std::string& other) {
    return mask.empty() ? other : step_.node("And", {mask, other});
  }

  /// Returns the mask in which query i attends to keys up to i + diagonal, or only to the last keys
  /// of those if there is a window.
  std::string causal_mask() {
    if (step_.in(0).batch_axis == rank_ - 2) step_.fix_batch();
    Array mask(DType::kBool, Shape{queries(), keys()});
    for (int64_t i = 0; i < queries(); ++i)
      for (int64_t j = 0; j < keys(); ++j)
        mask.as<bool>()[static_cast<size_t>(i * keys() + j)] =
            j <= i + diagonal() && (window() == 0 || i + diagonal() - j < window());
    return step_.constant(mask.view());
  }

  /// Returns the mask (N, 1, ..., S) that is true for the keys before each length.
  std::string mask_of_lengths() {
    const Value& lengths = step_.in(*at_.lengths);
    if (lengths.batch_axis < 0 && step_.in(0).batch_axis >= 0) step_.fix_batch();
    std::vector<int64_t> column(static_cast<size_t>(rank_), 1);
    column[0] = lengths.shape[0];
    const std::string ends = step_.reshape(step_.cast(lengths.name, lengths.dtype, DType::kInt64),
                                           Shape(std::move(column)), lengths.batch_axis);
    std::vector<int64_t> places(static_cast<size_t>(keys()));
    std::iota(places.begin(), places.end(), 0);
    return step_.node("Less", {step_.vector(places), ends});
  }

  StepExport& step_;
  ops::AttentionOperands at_;
  int rank_;
  int64_t group_;  // query heads per key head
};

void attention(StepExport& step) { AttentionExport(step).write(); }

Tensor heads_exchanged(NodeImport& node, const Tensor& x) {
  return node.call("transpose", {x}, {{"perm", Integers{0, 2, 1, 3}}});
}

}  // namespace

/// Returns (N, H, T, D). An operand with three axes, (N, T, H D), is split into `count` heads.
Tensor as_heads(NodeImport& node, const Tensor& x, int64_t count) {
  const Shape& shape = x.shape;
  if (shape.rank() == 4) return x;
  if (shape.rank() != 3 || count < 1 || shape[2] % count != 0)
    refuse("operand {} with {} heads; expected (N, H, T, D)", shape.str(), count);
  const Integers split = {shape[0], shape[1], count, shape[2] / count};
  return heads_exchanged(node, node.reshape(x, split));
}

/// Undoes as_heads() for an operand with three axes.
Tensor as_rows(NodeImport& node, const Tensor& x) {
  const Integers joined = {x.shape[0], x.shape[2], x.shape[1] * x.shape[3]};
  return node.reshape(heads_exchanged(node, x), joined);
}

namespace {

/// A finite number below all scores.
constexpr double kLowest = -3e38;

Tensor as_column(NodeImport& node, const Tensor& vector, int axis, int rank) {
  Integers extents(static_cast<size_t>(rank), 1);
  extents[static_cast<size_t>(axis)] = vector.shape[0];
  return node.reshape(vector, extents);
}

class AttentionImport {
 public:
  explicit AttentionImport(NodeImport& node) : node_(node) {
    const int64_t heads = node.integer("q_num_heads", 0), shared = node.integer("kv_num_heads", 0);
    query_ = as_heads(node, node.operand(0), heads);
    key_ = with_past(as_heads(node, node.operand(1), shared), 4);
    value_ = with_past(as_heads(node, node.operand(2), shared), 5);
    if (query_.shape[3] != key_.shape[3] || query_.shape[1] % key_.shape[1] != 0)
      refuse("queries {} for keys {}", query_.shape.str(), key_.shape.str());
    scale_ = node.number("scale", 1 / std::sqrt(static_cast<double>(query_.shape[3])));
    softcap_ = node.number("softcap", 0);
    causal_ = node.integer("is_causal", 0) != 0;
    left_ = node.integer("left_window_size", -1);
    right_ = node.integer("right_window_size", -1);
    if (causal_) right_ = right_ < 0 ? 0 : std::min<int64_t>(right_, 0);
    node.ignore("softmax_precision");
  }

  Tensors run() {
    const int64_t mode = node_.integer("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) refuse("qk_matmul_output_mode {}", mode);
    read_mask();
    Tensors stages(4);
    const bool by_steps = softcap_ != 0 || node_.is_read(3);
    Tensor result = by_steps ? attended_by_steps(stages) : attended();
    if (node_.rank() == 3) result = as_rows(node_, result);
    return {result, key_, value_, stages[static_cast<size_t>(mode)]};
  }

 private:
  int64_t queries() const { return query_.shape[2]; }
  int64_t keys() const { return key_.shape[2]; }

  Tensor with_past(const Tensor& x, int past) {
    if (!node_.has(past)) return x;
    offset_ = node_.in(past).shape.rank() == 4 ? node_.in(past).shape[2] : 0;
    return node_.call("concat", {node_.operand(past), x}, {{"axis", 2}});
  }

  /// Reads the mask. A mask of bools hides the keys where it is false; a mask of floats is added as
  /// a bias. If it does not cover the last keys, they are hidden.
  void read_mask() {
    if (!node_.has(3)) return;
    Tensor mask = node_.operand(3);
    const bool hides = mask.dtype == DType::kBool;
    const int last = mask.shape.rank() - 1;
    if (last >= 0 && mask.shape[last] < keys() && mask.shape[last] != 1) {
      Integers pads(2 * mask.shape.extents().size(), 0);
      pads.back() = keys() - mask.shape[last];
      if (hides) mask = node_.cast(mask, query_.dtype);
      mask =
          node_.call("pad", {mask},
                     {{"paddings", pads}, {"mode", "constant"}, {"value", hides ? 0.0 : kLowest}});
      if (hides) mask = node_.call("greater", mask, 0);
    }
    (hides ? mask_ : bias_) = mask;
  }

  void hide_unless(const Tensor& visible) {
    mask_ = mask_ ? node_.call("logical_and", {*mask_, visible}) : visible;
  }

  /// Hides keys outside the window of each query, and keys of padding, by comparing positions.
  void hide_by_position() {
    const auto number = [](int64_t value) {
      return NodeImport::scalar(static_cast<double>(value), DType::kInt64);
    };
    const auto range = [&](int64_t from, int64_t count) {
      return node_.range(static_cast<double>(from), static_cast<double>(from + count), 1,
                         DType::kInt64);
    };
    std::optional<Tensor> lengths;
    if (node_.has(6)) {
      lengths = node_.cast(as_column(node_, node_.operand(6), 0, 4), DType::kInt64);
    }
    const Tensor key = range(0, keys());
    if (lengths) hide_unless(node_.call("less", {key, *lengths}));
    if (left_ < 0 && right_ < 0) return;
    Tensor query = as_column(node_, range(lengths ? -queries() : offset_, queries()), 0, 2);
    if (lengths) query = node_.call("add", {*lengths, query});
    if (right_ >= 0)
      hide_unless(node_.call("less_equal", {key, node_.call("add", {query, number(right_)})}));
    if (left_ >= 0)
      hide_unless(
          node_.call("greater_equal", {key, node_.call("subtract", {query, number(left_)})}));
  }

  Tensor attended() {
    const bool is_top_left = offset_ == 0, is_bottom_right = offset_ == keys() - queries();
    const bool simple = right_ == 0 && !node_.has(6) && (is_top_left || is_bottom_right);
    const bool only_lengths = right_ < 0 && left_ < 0 && node_.has(6);
    if (!simple && !only_lengths) hide_by_position();
    Tensors operands = {query_,
                        key_,
                        value_,
                        mask_.value_or(Tensor()),
                        bias_.value_or(Tensor()),
                        only_lengths ? node_.operand(6) : Tensor()};
    while (operands.back().reference.kind == Reference::Kind::kNone) operands.pop_back();
    ops::Attributes attributes = {{"causal", simple},
                                  {"align", simple && !is_top_left ? "bottom_right" : "top_left"},
                                  {"scale", scale_}};
    if (simple && left_ >= 0) attributes.set("window", left_ + 1);
    return node_.call("scaled_dot_product_attention", operands, attributes);
  }

  /// Returns a product of (N, H, T, ...) with keys or values, each of whose heads is shared by
  /// several heads.
  Tensor product(const Tensor& x, const Tensor& shared, bool transposed) {
    const int64_t groups = x.shape[1] / shared.shape[1];
    Tensor rows = x;
    if (groups > 1)
      rows = node_.reshape(x, {x.shape[0], shared.shape[1], groups * x.shape[2], x.shape[3]});
    const Tensor result =
        node_.call("matmul", {rows, shared}, {{"transpose_a", false}, {"transpose_b", transposed}});
    if (groups == 1) return result;
    return node_.reshape(result, {x.shape[0], x.shape[1], x.shape[2], result.shape[3]});
  }

  /// Computes attention with separate entries. `stages` receives the scores, the capped scores, the
  /// biased scores, and their softmax.
  Tensor attended_by_steps(Tensors& stages) {
    hide_by_position();
    Tensor scores = node_.call("multiply", product(query_, key_, true), scale_);
    stages[0] = scores;
    if (softcap_ != 0) {
      const Tensor bent = node_.call("tanh", {node_.call("divide", scores, softcap_)});
      scores = node_.call("multiply", bent, softcap_);
    }
    stages[1] = scores;
    if (bias_) scores = node_.call("add", {scores, *bias_});
    if (mask_) {  // log(0) = -inf hides a key
      const Tensor seen = node_.cast(*mask_, query_.dtype);
      scores = node_.call("add", {scores, node_.call("log", {seen})});
    }
    stages[2] = scores;
    Tensor weights = node_.call("softmax", {scores}, {{"axis", -1}});
    if (mask_ || bias_) {  // handles queries that attend to no key
      const Tensor best =
          node_.call("reduce_max", {scores}, {{"axis", Integers{3}}, {"keepdims", true}});
      const Tensor sees = node_.call("greater", best, kLowest);
      weights = node_.call("where", {sees, weights, NodeImport::scalar(0, query_.dtype)});
    }
    stages[3] = weights;
    return product(weights, value_, false);
  }

  NodeImport& node_;
  Tensor query_, key_, value_;
  double scale_ = 1, softcap_ = 0;
  bool causal_ = false;
  int64_t left_ = -1, right_ = -1;  // number of keys visible before and after a query; -1: all
  int64_t offset_ = 0;              // position of the first query
  std::optional<Tensor> mask_, bias_;
};

Tensors attention(NodeImport& node) {
  node.pin_shapes();
  return AttentionImport(node).run();
}

constexpr Rule kAttentionRules[] = {
    {"scaled_dot_product_attention", "Attention", attention, attention},
};

}  // namespace

std::span<const Rule> attention_rules() { return kAttentionRules; }

}  // namespace flow::onnx
