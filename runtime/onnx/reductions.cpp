// Sums and extremes over axes, cumulative sums and products, softmax, and losses of rows.
#include <limits>
#include <utility>

#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

int64_t kept(const StepExport& step) { return step.attribute<bool>("keepdims") ? 1 : 0; }

/// Only a scalar has no axes. ONNX would reduce all axes then.
void reduce(StepExport& step) {
  const Integers& axes = step.integers("axes");
  if (axes.empty()) return step.result("Identity", step.names());
  // Of these operators, only ReduceSum takes its axes as an input in opset 17.
  if (step.type() == "ReduceSum")
    return step.result("ReduceSum", {step.in().name, step.vector(axes)},
                       {{"keepdims", kept(step)}});
  step.result(step.type(), step.names(), {{"axes", axes}, {"keepdims", kept(step)}});
}

/// Writes a maximum or minimum of bools.
void reduce_bools(StepExport& step) {
  const Integers& axes = step.integers("axes");
  if (axes.empty()) return step.result("Identity", step.names());
  const std::string numbers = step.cast(step.in().name, DType::kBool, DType::kInt32);
  const std::string reduced =
      step.node(step.type(), {numbers}, {{"axes", axes}, {"keepdims", kept(step)}});
  step.result("Cast", {reduced}, {{"to", data_type_of(DType::kBool)}});
}

void softmax(StepExport& step) {
  step.result(step.type(), step.names(), {{"axis", step.attribute<int64_t>("axis")}});
}

void cumsum(StepExport& step) {
  const auto axis = static_cast<double>(step.attribute<int64_t>("axis"));
  step.result("CumSum", {step.in().name, step.number(axis, DType::kInt64)},
              {{"exclusive", step.attribute<bool>("exclusive")},
               {"reverse", step.attribute<bool>("reverse")}});
}

/// Shifts the elements of `value` by `count` places along the axis, away from the end at which
/// products begin, and fills these places with ones.
std::string shifted(StepExport& step, const std::string& value, int64_t count) {
  const auto axis = step.attribute<int64_t>("axis");
  const auto rank = static_cast<size_t>(step.in().shape.rank());
  const bool reverse = step.attribute<bool>("reverse");
  Integers pads(2 * rank, 0);
  pads[static_cast<size_t>(axis) + (reverse ? rank : 0)] = count;
  const std::string padded =
      step.node("Pad", {value, step.vector(pads), step.number(1)}, {{"mode", "constant"}});
  const int64_t end = reverse ? std::numeric_limits<int64_t>::max() : -count;
  return step.node("Slice", {padded, step.vector({reverse ? count : 0}), step.vector({end}),
                             step.vector({axis})});
}

/// Opset 17 has no CumProd. Each multiplication doubles the number of elements in a product (Hillis
/// and Steele, 1986), so few nodes are enough, and zeros stay exact.
void cumprod(StepExport& step) {
  const Value& x = step.in();
  const auto axis = static_cast<int>(step.attribute<int64_t>("axis"));
  if (x.batch_axis == axis || x.batch_axis == ops::kBatchReduced) step.fix_batch();
  std::string product = x.name;
  if (step.attribute<bool>("exclusive")) product = shifted(step, product, 1);
  for (int64_t count = 1; count < x.shape[axis]; count *= 2)
    product = step.node("Mul", {product, shifted(step, product, count)});
  step.result("Identity", {product});
}

/// Writes the second result of both losses.
void probabilities(StepExport& step) {
  if (step.is_read(1)) step.result("Softmax", {step.in(1).name}, {{"axis", -1}}, 1);
}

void sparse_cross_entropy(StepExport& step) {
  const Value &labels = step.in(0), &logits = step.in(1);
  if (labels.batch_axis != logits.batch_axis) step.fix_batch();
  const int last = logits.shape.rank() - 1;
  const std::string logs = step.node("LogSoftmax", {logits.name}, {{"axis", -1}});
  const std::string axis = step.vector({last});
  const std::string column =
      step.node("Unsqueeze", {step.cast(labels.name, labels.dtype, DType::kInt64), axis});
  const std::string picked = step.node("GatherElements", {logs, column}, {{"axis", last}});
  step.result("Neg", {step.node("Squeeze", {picked, axis})});
  probabilities(step);
}

void cross_entropy(StepExport& step) {
  const std::string &labels = step.in(0).name, &logits = step.in(1).name;
  const std::string logs = step.node("LogSoftmax", {logits}, {{"axis", -1}});
  const std::string sum = step.node(
      "ReduceSum", {step.node("Mul", {labels, logs}), step.vector({step.in(1).shape.rank() - 1})},
      {{"keepdims", 0}});
  step.result("Neg", {sum});
  probabilities(step);
}

Tensors cumulative(NodeImport& node) {
  const Integers axis = node.values_as_int64(1);
  if (axis.size() != 1) refuse("several axes");
  return {node.call(node.op(), {node.operand(0)},
                    {{"axis", axis[0]},
                     {"exclusive", node.integer("exclusive", 0) != 0},
                     {"reverse", node.integer("reverse", 0) != 0}})};
}

/// The ops before and after the reduction.
struct Steps {
  std::string_view type, before, behind;
};

constexpr Steps kSteps[] = {{"ReduceL1", "abs", ""},
                            {"ReduceL2", "square", "sqrt"},
                            {"ReduceSumSquare", "square", ""},
                            {"ReduceLogSum", "", "log"}};

Tensors reduce(NodeImport& node) {
  const Integers axes = node.list("axes", 1).value_or(Integers());
  const bool keeps_all = node.integer("noop_with_empty_axes", 0) != 0 && axes.empty();
  const bool keeps_axes = node.integer("keepdims", 1) != 0;
  const auto* steps = std::ranges::find(kSteps, node.type(), &Steps::type);
  const bool has_steps = steps != std::end(kSteps);
  Tensor result = node.operand(0);
  if (has_steps && !steps->before.empty()) result = node.call(steps->before, {result});
  if (!keeps_all)
    result = node.call(node.op(), {result}, {{"axis", axes}, {"keepdims", keeps_axes}});
  if (has_steps && !steps->behind.empty()) result = node.call(steps->behind, {result});
  return {result};
}

/// Before opset 13, the axes starting with `axis` are joined to one.
bool joins_axes(const NodeImport& node) { return node.opset() < 13; }

/// Calls `along_axis(x, axis)` for an op that works on vectors along an axis. Before opset 13, a
/// vector consists of all elements of the axes starting with `axis`.
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

/// Returns one-hot codes of the largest elements along an axis.
Tensor hot_largest(NodeImport& node, const Tensor& x, int axis) {
  const Tensor largest = node.call("argmax", {x}, {{"axis", axis}});
  node.pin({x.size(axis)});
  const Tensor hot = node.call(
      "one_hot", {largest},
      {{"depth", x.shape[axis]}, {"on_value", 1.0}, {"off_value", 0.0}, {"dtype", x.dtype}});
  return node.with_last_at(hot, axis);
}

Tensors hardmax(NodeImport& node) {
  return along_axis(node, [&](const Tensor& x, int axis) { return hot_largest(node, x, axis); });
}

/// Checks labels (N, ...) for scores (N, C, ...), and weights (C) of the classes.
void require_classes(const NodeImport& node) {
  const Shape& scores = node.in(0).shape;
  if (scores.rank() < 2) refuse("scores without classes");
  Integers extents = scores.extents();
  extents.erase(extents.begin() + 1);
  if (node.in(1).shape != Shape(extents) || !is_integer(node.in(1).dtype))
    refuse("labels {} for {}", node.in(1).shape.str(), scores.str());
  if (node.has(2) && node.in(2).shape != Shape{scores[1]})
    refuse("weights {} for {} classes", node.in(2).shape.str(), scores[1]);
}

/// Moves the classes from axis 1 to the last axis.
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
    refuse("an unknown reduction");
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
  return {loss, node.call("log_softmax", {scores}, {{"axis", 1}})};
}

constexpr Rule kReductionRules[] = {
    {"reduce_sum", "ReduceSum", reduce, reduce, !kBroadcasts, kWidens},
    {"reduce_sum", "ReduceL1", nullptr, reduce},
    {"reduce_sum", "ReduceL2", nullptr, reduce},
    {"reduce_sum", "ReduceSumSquare", nullptr, reduce},
    {"reduce_sum", "ReduceLogSum", nullptr, reduce},
    {"reduce_mean", "ReduceMean", reduce, reduce},
    {"reduce_prod", "ReduceProd", reduce, reduce, !kBroadcasts, kWidens},
    {"reduce_max", "ReduceMax", reduce, reduce},
    {"reduce_min", "ReduceMin", reduce, reduce},
    {"reduce_any", "ReduceMax", reduce_bools},
    {"reduce_all", "ReduceMin", reduce_bools},
    {"logsumexp", "ReduceLogSumExp", reduce, reduce},
    {"softmax", "Softmax", softmax, softmax},
    {"log_softmax", "LogSoftmax", softmax, softmax},
    {"", "Hardmax", nullptr, hardmax},
    {"cumsum", "CumSum", cumsum, cumulative, !kBroadcasts, kWidens},
    {"cumprod", "CumProd", cumprod, cumulative, !kBroadcasts, kWidens},
    {"sparse_softmax_cross_entropy_with_logits", "SoftmaxCrossEntropyLoss", sparse_cross_entropy,
     loss_of_classes},
    {"nll", "NegativeLogLikelihoodLoss", nullptr, loss_of_classes},
    {"softmax_cross_entropy_with_logits", "", cross_entropy, nullptr, kBroadcasts},
};

}  // namespace

std::span<const Rule> reduction_rules() { return kReductionRules; }

}  // namespace flow::onnx
