// Normalizations by root mean squares, of groups and by norms. Softmax, the largest of classes, and
// losses of them.
#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

/// Along some axes, which stay.
Tensor reduced(NodeImport& node, std::string_view op, const Tensor& x, const Integers& axes) {
  return node.call(op, {x}, {{"axis", axes}, {"keepdims", true}});
}

Integers axes_from(int first, int rank) {
  Integers axes(static_cast<size_t>(rank - first));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

Tensor times(NodeImport& node, const Tensor& a, const Tensor& b) {
  return node.call("multiply", {a, b});
}

/// 1 / sqrt(mean(x^2) + epsilon), along axes that stay.
Tensor inverse_root(NodeImport& node, const Tensor& x, const Integers& axes, double epsilon) {
  const Tensor mean = reduced(node, "reduce_mean", node.call("square", {x}), axes);
  return node.call("rsqrt", {node.call("add", {mean, NodeImport::scalar(epsilon, x.dtype)})});
}

/// Is operand i a constant of that shape?
bool is_weight(const NodeImport& node, int i, const Shape& shape) {
  return node.in(i).value && node.in(i).shape == shape && node.is_float(i);
}

Tensors rms_normalization(NodeImport& node) {
  node.ignore("stash_type");
  const Tensor x = node.operand(0);
  const int axis = node.axis(node.integer("axis", -1)), rank = x.shape.rank();
  const double epsilon = node.number("epsilon", 1e-5);
  if (is_weight(node, 1, x.shape.from(axis)))
    return {node.layer("rms_norm", {x},
                       {{"axis", int64_t{axis == rank - 1 ? -1 : axis}}, {"epsilon", epsilon}},
                       x.shape, x.batch_axis, {{"gamma", node.value(1)}}, {1})};
  const Tensor root = inverse_root(node, x, axes_from(axis, rank), epsilon);
  return {times(node, times(node, x, root), node.operand(1))};
}

/// With its mean and the inverse of its deviation.
Tensors layer_normalization(NodeImport& node) {
  node.ignore("stash_type");
  const Tensor x = node.operand(0);
  const int axis = node.axis(node.integer("axis", -1)), rank = x.shape.rank();
  const double epsilon = node.number("epsilon", 1e-5);
  const Shape row = x.shape.from(axis);
  const bool is_layer = is_weight(node, 1, row) && (!node.has(2) || is_weight(node, 2, row));
  Tensors results(3);
  if (is_layer) {
    std::map<std::string, Array> weights = {{"gamma", node.value(1)}};
    if (node.has(2)) weights.emplace("beta", node.value(2));
    results[0] = node.layer("layer_norm", {x},
                            {{"axis", int64_t{axis == rank - 1 ? -1 : axis}},
                             {"epsilon", epsilon},
                             {"center", node.has(2)}},
                            x.shape, x.batch_axis, std::move(weights), {1, 2});
    if (!node.is_read(1) && !node.is_read(2)) return results;
  }
  const Integers axes = axes_from(axis, rank);
  results[1] = reduced(node, "reduce_mean", x, axes);
  const Tensor centered = node.call("subtract", {x, results[1]});
  results[2] = inverse_root(node, centered, axes, epsilon);
  if (is_layer) return results;
  results[0] = times(node, times(node, centered, results[2]), node.operand(1));
  if (node.has(2)) results[0] = node.call("add", {results[0], node.operand(2)});
  return results;
}

/// Before opset 21, weights are those of groups.
Tensors group_normalization(NodeImport& node) {
  node.ignore("stash_type");
  const Tensor x = node.operand(0);
  const int64_t groups = node.integer("num_groups", 0);
  if (x.shape.rank() < 3 || groups < 1 || x.shape[1] % groups != 0)
    throw Unsupported(fmt::format("{} groups of {}", groups, x.shape.str()));
  const int64_t each = node.opset() < 21 ? groups : x.shape[1];
  std::map<std::string, Array> weights;
  for (const auto& [name, i] : {std::pair("gamma", 1), std::pair("beta", 2)}) {
    const Array& given = node.value(i);
    if (given.shape() != Shape{each})
      throw Unsupported(
          fmt::format("operand {} is {}; expected [{}]", i + 1, given.shape().str(), each));
    Array all(DType::kFloat64, Shape{x.shape[1]});
    const Array wide = converted(given, DType::kFloat64);
    for (int64_t channel = 0; channel < x.shape[1]; ++channel)
      all.as<double>()[static_cast<size_t>(channel)] =
          wide.as<double>()[static_cast<size_t>(channel * each / x.shape[1])];
    weights.emplace(name, std::move(all));
  }
  return {node.layer("group_norm", {x},
                     {{"groups", groups}, {"epsilon", node.number("epsilon", 1e-5)}}, x.shape,
                     x.batch_axis, std::move(weights), {1, 2})};
}

/// Rows of zeros stay.
Tensors lp_normalization(NodeImport& node) {
  const Tensor x = node.operand(0);
  const int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) throw Unsupported(fmt::format("the norm {}", p));
  const Integers axes = {node.axis(node.integer("axis", -1))};
  Tensor norm = reduced(node, "reduce_sum", node.call(p == 1 ? "abs" : "square", {x}), axes);
  if (p == 2) norm = node.call("sqrt", {norm});
  const Tensor is_zero = node.call("equal", {norm, NodeImport::scalar(0, x.dtype)});
  const Tensor divisor = node.call("where", {is_zero, NodeImport::scalar(1, x.dtype), norm});
  return {node.call("divide", {x, divisor})};
}

constexpr ImportRule kNormalizationImports[] = {
    {"LayerNormalization", layer_normalization},
    {"RMSNormalization", rms_normalization},
    {"GroupNormalization", group_normalization},
    {"LpNormalization", lp_normalization},
};

/// Before opset 13, axes from `axis` on are joined.
bool joins_axes(const NodeImport& node) { return node.opset() < 13; }

/// Calls `along_axis(x, axis)` for an op of a vector along each axis. Before opset 13, the vector
/// has all elements from the axis on.
template <typename AlongAxis>
Tensors along_axis(NodeImport& node, AlongAxis along_axis) {
  const int axis = node.axis(node.integer("axis", joins_axes(node) ? 1 : -1)), rank = node.rank();
  const Tensor x = node.operand(0);
  const bool is_last = x.shape.elements(axis + 1, rank) == 1;
  for (int i = axis + 1; i < rank && joins_axes(node) && is_last; ++i) node.pin({x.size(i)});
  if (!joins_axes(node) || is_last) return {along_axis(x, axis)};
  const Sizes all = x.all_sizes();
  const Tensor matrix = node.reshape(
      x, {product({all.begin(), all.begin() + axis}), product({all.begin() + axis, all.end()})});
  return {node.reshape(along_axis(matrix, 1), all)};
}

Tensors softmax(NodeImport& node) {
  return along_axis(node, [&](const Tensor& x, int axis) {
    const int64_t written = axis == x.shape.rank() - 1 ? -1 : axis;
    return node.call(node.op(), {x}, {{"axis", written}});
  });
}

/// One-hot codes of the largest elements along an axis.
Tensor hot_largest(NodeImport& node, const Tensor& x, int axis) {
  const Tensor largest = node.call("argmax", {x}, {{"axis", int64_t{axis}}});
  node.pin({x.size(axis)});
  const Tensor hot = node.call(
      "one_hot", {largest},
      {{"depth", x.shape[axis]}, {"on_value", 1.0}, {"off_value", 0.0}, {"dtype", x.dtype}});
  return node.with_last_at(hot, axis);
}

Tensors hardmax(NodeImport& node) {
  return along_axis(node, [&](const Tensor& x, int axis) { return hot_largest(node, x, axis); });
}

/// Labels (N, ...) beside scores (N, C, ...), and weights (C) of the classes.
void require_classes(const NodeImport& node) {
  const Shape& scores = node.in(0).shape;
  if (scores.rank() < 2) throw Unsupported("scores without classes");
  Integers extents = scores.extents();
  extents.erase(extents.begin() + 1);
  if (node.in(1).shape != Shape(extents) || !is_integer(node.in(1).dtype))
    throw Unsupported(fmt::format("labels {} for {}", node.in(1).shape.str(), scores.str()));
  if (node.has(2) && node.in(2).shape != Shape{scores[1]})
    throw Unsupported(fmt::format("weights {} for {} classes", node.in(2).shape.str(), scores[1]));
}

/// Classes along axis 1, the last one here.
Tensor with_classes_last(NodeImport& node, const Tensor& scores) {
  const int rank = scores.shape.rank();
  if (rank == 2) return scores;
  Integers perm = {0};
  for (int64_t axis = 2; axis < rank; ++axis) perm.push_back(axis);
  perm.push_back(1);
  return node.call("transpose", {scores}, {{"perm", perm}});
}

Tensors loss_of_classes(NodeImport& node) {
  require_classes(node);
  const std::string reduction = node.text("reduction", "mean");
  if (reduction != "none" && reduction != "mean" && reduction != "sum")
    throw Unsupported("an unknown reduction");
  const Tensor scores = node.operand(0), labels = node.operand(1);
  Tensors operands = {labels, with_classes_last(node, scores)};
  if (node.has(2)) operands.push_back(node.operand(2));
  ops::Attributes attributes = {{"reduction", reduction}};
  if (const auto* ignored = node.find("ignore_index", pb::AttributeProto::INT))
    attributes.set("ignore_index", int64_t{ignored->i()});
  const bool of_rows = reduction == "none", has_batch = labels.batch_axis != ops::kNoBatch;
  Tensor loss = node.layer(node.op(), operands, attributes, of_rows ? labels.shape : Shape(),
                           of_rows     ? labels.batch_axis
                           : has_batch ? ops::kBatchReduced
                                       : ops::kNoBatch);
  loss.dtype = scores.dtype;
  loss.sizes = of_rows ? labels.sizes : Sizes();
  if (!node.is_read(1)) return {loss};
  return {loss, node.call("log_softmax", {scores}, {{"axis", int64_t{1}}})};
}

constexpr ImportRule kLossImports[] = {
    {"Softmax", softmax, "softmax"},
    {"LogSoftmax", softmax, "log_softmax"},
    {"Hardmax", hardmax},
    {"SoftmaxCrossEntropyLoss", loss_of_classes, "sparse_softmax_cross_entropy_with_logits"},
    {"NegativeLogLikelihoodLoss", loss_of_classes, "nll"},
};

}  // namespace

std::span<const ImportRule> normalization_imports() { return kNormalizationImports; }

std::span<const ImportRule> loss_imports() { return kLossImports; }

}  // namespace flow::onnx
