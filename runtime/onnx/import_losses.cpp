// Softmax, the largest of classes, and losses of them.
#include <fmt/format.h>

#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

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

std::span<const ImportRule> loss_imports() { return kLossImports; }

}  // namespace flow::onnx
