// Attention, and rotary embeddings of its queries and keys.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

/// Below all scores, and finite.
constexpr double kLowest = -3e38;

Tensor heads_exchanged(NodeImport& node, const Tensor& x) {
  return node.call("transpose", {x}, {{"perm", Integers{0, 2, 1, 3}}});
}

/// (N, H, T, D). An operand of three axes, (N, T, H D), has `count` heads.
Tensor as_heads(NodeImport& node, const Tensor& x, int64_t count) {
  const Shape& shape = x.shape;
  if (shape.rank() == 4) return x;
  if (shape.rank() != 3 || count < 1 || shape[2] % count != 0)
    throw Unsupported(
        fmt::format("operand {} with {} heads; expected (N, H, T, D)", shape.str(), count));
  const Integers split = {shape[0], shape[1], count, shape[2] / count};
  return heads_exchanged(node, node.reshape(x, split));
}

/// The opposite of as_heads, for an operand of three axes.
Tensor as_rows(NodeImport& node, const Tensor& x) {
  const Integers joined = {x.shape[0], x.shape[2], x.shape[1] * x.shape[3]};
  return node.reshape(heads_exchanged(node, x), joined);
}

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
      throw Unsupported(
          fmt::format("queries {} for keys {}", query_.shape.str(), key_.shape.str()));
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
    if (mode < 0 || mode > 3) throw Unsupported(fmt::format("qk_matmul_output_mode {}", mode));
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
    return node_.call("concat", {node_.operand(past), x}, {{"axis", int64_t{2}}});
  }

  /// A mask of bools hides keys where it is false; one of floats is a bias. It may lack the last
  /// keys, which are hidden.
  void read_mask() {
    if (!node_.has(3)) return;
    Tensor mask = node_.operand(3);
    const bool hides = mask.dtype == DType::kBool;
    const int last = mask.shape.rank() - 1;
    if (last >= 0 && mask.shape[last] < keys() && mask.shape[last] != 1) {
      Integers pads(2 * mask.shape.extents().size(), 0);
      pads.back() = keys() - mask.shape[last];
      if (hides) mask = node_.call("cast", {mask}, {{"dtype", query_.dtype}});
      mask =
          node_.call("pad", {mask},
                     {{"paddings", pads}, {"mode", "constant"}, {"value", hides ? 0.0 : kLowest}});
      if (hides) mask = node_.call("greater", {mask, NodeImport::scalar(0, mask.dtype)});
    }
    (hides ? mask_ : bias_) = mask;
  }

  void hide_unless(const Tensor& visible) {
    mask_ = mask_ ? node_.call("logical_and", {*mask_, visible}) : visible;
  }

  /// Keys near each query, and those that are not padding: compares their positions.
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
      lengths = as_column(node_, node_.operand(6), 0, 4);
      if (lengths->dtype != DType::kInt64)
        lengths = node_.call("cast", {*lengths}, {{"dtype", DType::kInt64}});
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

  /// A product of (N, H, T, ...) with keys or values, whose heads several heads share.
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

  /// `stages`: scores, those that are capped, biased, and their softmax.
  Tensor attended_by_steps(Tensors& stages) {
    const auto number = [&](double value) { return NodeImport::scalar(value, query_.dtype); };
    hide_by_position();
    Tensor scores = node_.call("multiply", {product(query_, key_, true), number(scale_)});
    stages[0] = scores;
    if (softcap_ != 0) {
      const Tensor bent = node_.call("tanh", {node_.call("divide", {scores, number(softcap_)})});
      scores = node_.call("multiply", {bent, number(softcap_)});
    }
    stages[1] = scores;
    if (bias_) scores = node_.call("add", {scores, *bias_});
    if (mask_) {  // the logarithm of 0 hides a key
      const Tensor seen = node_.call("cast", {*mask_}, {{"dtype", query_.dtype}});
      scores = node_.call("add", {scores, node_.call("log", {seen})});
    }
    stages[2] = scores;
    Tensor weights = node_.call("softmax", {scores}, {{"axis", int64_t{-1}}});
    if (mask_ || bias_) {  // a query that sees no key
      const Tensor best =
          node_.call("reduce_max", {scores}, {{"axis", Integers{3}}, {"keepdims", true}});
      const Tensor sees = node_.call("greater", {best, number(kLowest)});
      weights = node_.call("where", {sees, weights, number(0)});
    }
    stages[3] = weights;
    return product(weights, value_, false);
  }

  NodeImport& node_;
  Tensor query_, key_, value_;
  double scale_ = 1, softcap_ = 0;
  bool causal_ = false;
  int64_t left_ = -1, right_ = -1;  // keys that a query sees before and behind it; -1: all
  int64_t offset_ = 0;              // position of the first query
  std::optional<Tensor> mask_, bias_;
};

Tensors attention(NodeImport& node) {
  node.pin_shapes();
  return AttentionImport(node).run();
}

/// Elements of the last axis of four.
Tensor last_slice(NodeImport& node, const Tensor& x, int64_t from, int64_t to, int64_t step) {
  return node.call("slice", {x}, {{"index", fmt::format("[:, :, :, {}:{}:{}]", from, to, step)}});
}

/// Turns pairs of elements by angles whose cosines and sines are given.
Tensors rotary_embedding(NodeImport& node) {
  node.pin_shapes();
  const Tensor x = as_heads(node, node.operand(0), node.integer("num_heads", 0));
  const int64_t depth = x.shape[3], given = node.integer("rotary_embedding_dim", 0);
  const int64_t turned = given == 0 ? depth : given;
  if (turned < 2 || turned > depth || turned % 2 != 0)
    throw Unsupported(fmt::format("a rotary_embedding_dim of {} in {}", turned, depth));
  const bool interleaved = node.integer("interleaved", 0) != 0;
  const auto angles = [&](int i) {
    Tensor table = node.operand(i);
    if (node.has(3))
      table = node.call("gather", {table, node.indices(3, table.size(0))}, {{"axis", int64_t{0}}});
    if (table.shape.rank() != 3) throw Unsupported(fmt::format("angles {}", table.shape.str()));
    return node.reshape(table, {table.shape[0], 1, table.shape[1], table.shape[2]});
  };
  const Tensor cosine = angles(1), sine = angles(2);
  const int64_t step = interleaved ? 2 : 1, second = interleaved ? 1 : turned / 2;
  const Tensor a = last_slice(node, x, 0, interleaved ? turned : turned / 2, step);
  const Tensor b = last_slice(node, x, second, turned, step);
  const auto product = [&](const Tensor& p, const Tensor& q) {
    return node.call("multiply", {p, q});
  };
  Tensor first = node.call("subtract", {product(cosine, a), product(sine, b)});
  Tensor other = node.call("add", {product(sine, a), product(cosine, b)});
  Integers pair = first.shape.extents(), whole = x.shape.extents();
  if (interleaved) {
    pair.push_back(1);
    first = node.reshape(first, pair);
    other = node.reshape(other, pair);
  }
  Tensor result = node.call("concat", {first, other}, {{"axis", int64_t{-1}}});
  whole[3] = turned;
  if (interleaved) result = node.reshape(result, whole);
  if (turned < depth)
    result = node.call("concat", {result, last_slice(node, x, turned, depth, 1)},
                       {{"axis", int64_t{-1}}});
  return {node.rank() == 3 ? as_rows(node, result) : result};
}

constexpr ImportRule kAttentionImports[] = {
    {"Attention", attention},
    {"RotaryEmbedding", rotary_embedding},
};

}  // namespace

std::span<const ImportRule> attention_imports() { return kAttentionImports; }

}  // namespace flow::onnx
