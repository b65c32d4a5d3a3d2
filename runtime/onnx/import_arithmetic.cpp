// Operators of one operand, arithmetic, comparisons and products.
#include <algorithm>
#include <cmath>

#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Tensors = std::vector<Tensor>;

Tensors unary(NodeImport& node) { return {node.call(node.op(), {node.operand(0)})}; }

Tensors same(NodeImport& node) { return {node.in(0)}; }

/// The second operand; before opset 7 its axes are those from `axis` on.
Tensor at_axis(NodeImport& node, const Tensor& a) {
  node.ignore("broadcast");
  const int64_t axis = node.integer("axis", -1);
  if (node.opset() >= 7 || axis < 0) return node.operand_or_number(1, a);
  const Tensor b = node.operand(1);
  const int64_t behind = a.shape.rank() - axis - b.shape.rank();
  if (behind <= 0) return b;
  std::vector<int64_t> extents = b.shape.extents();
  extents.resize(extents.size() + static_cast<size_t>(behind), 1);
  return node.reshape(b, extents);
}

/// Two operands, of which one may be a number.
Tensors two_with(NodeImport& node, std::string_view op) {
  const bool first_is_known = node.in(0).value != nullptr && !node.in(1).value;
  const Tensor a = first_is_known ? node.operand_or_number(0, node.in(1)) : node.operand(0);
  return {node.call(op, {a, at_axis(node, a)})};
}

Tensors binary(NodeImport& node) { return two_with(node, node.op()); }

Tensors power(NodeImport& node) {
  if (node.in(0).dtype != node.in(1).dtype) throw Unsupported("operands of two dtypes");
  return binary(node);
}

Tensors divide(NodeImport& node) {
  if (!node.is_float()) throw Unsupported("a division of integers");
  return binary(node);
}

/// All operands, by an op of two.
Tensor joined(NodeImport& node, std::string_view op) {
  Tensor result = node.operand(0);
  for (int i = 1; i < node.inputs(); ++i) result = node.call(op, {result, node.operand(i)});
  return result;
}

Tensors variadic(NodeImport& node) { return {joined(node, node.op())}; }

Tensors mean(NodeImport& node) {
  const Tensor sum = joined(node, "add");
  return {node.call("divide", {sum, NodeImport::scalar(node.inputs(), sum.dtype)})};
}

Tensors with_alpha(NodeImport& node) {
  const double otherwise = node.type() == "LeakyRelu" ? 0.01 : 1.0;
  return {node.call(node.op(), {node.operand(0)}, {{"alpha", node.number("alpha", otherwise)}})};
}

Tensors hard_sigmoid(NodeImport& node) {
  return {node.call("hard_sigmoid", {node.operand(0)},
                    {{"alpha", node.number("alpha", 0.2)}, {"beta", node.number("beta", 0.5)}})};
}

Tensors shrink(NodeImport& node) {
  const double bias = node.number("bias", 0), lambd = node.number("lambd", 0.5);
  if (bias != lambd) throw Unsupported("bias is not lambd");
  return {node.call("softshrink", {node.operand(0)}, {{"lambd", lambd}})};
}

Tensors selu(NodeImport& node) {
  const double alpha = node.number("alpha", 1.67326319), gamma = node.number("gamma", 1.05070102);
  const Tensor bent = node.call("elu", {node.operand(0)}, {{"alpha", alpha}});
  return {node.call("multiply", {bent, NodeImport::scalar(gamma, bent.dtype)})};
}

Tensors thresholded_relu(NodeImport& node) {
  return {node.call("threshold", {node.operand(0)},
                    {{"threshold", node.number("alpha", 1)}, {"value", 0.0}})};
}

Tensors gelu(NodeImport& node) {
  return {
      node.call("gelu", {node.operand(0)}, {{"approximate", node.text("approximate", "none")}})};
}

/// Before opset 7 a slope for each channel, axis 1.
Tensors prelu(NodeImport& node) {
  const Tensor x = node.operand(0);
  Tensor slope = node.operand_or_number(1, x);
  if (node.opset() < 7 && slope.shape.elements() > 1) {
    std::vector<int64_t> extents(static_cast<size_t>(std::max(1, x.shape.rank() - 1)), 1);
    extents[0] = slope.shape.elements();
    slope = node.reshape(slope, extents);
  }
  const Tensor zero = NodeImport::scalar(0, x.dtype);
  const Tensor below = node.call("multiply", {node.call("minimum", {x, zero}), slope});
  return {node.call("add", {node.call("relu", {x}), below})};
}

/// A bound: an attribute before opset 11, an operand from then on.
std::optional<double> bound(NodeImport& node, std::string_view name, int operand) {
  if (const auto* found = node.find(name, pb::AttributeProto::FLOAT)) return double{found->f()};
  if (!node.has(operand)) return {};
  const Array wide = converted(node.value(operand), DType::kFloat64);
  if (wide.shape().elements() != 1) throw Unsupported("bounds of several elements");
  return wide.as<double>()[0];
}

Tensors clip(NodeImport& node) {
  const auto least = bound(node, "min", 1), most = bound(node, "max", 2);
  Tensor result = node.operand(0);
  if (!node.is_float()) {
    if (least) result = node.call("maximum", {result, NodeImport::scalar(*least, result.dtype)});
    if (most) result = node.call("minimum", {result, NodeImport::scalar(*most, result.dtype)});
    return {result};
  }
  // The lowest and the highest float bound nothing.
  const auto bounds = [](const std::optional<double>& end) {
    return end && std::abs(*end) < 3.4e38;
  };
  if (!bounds(least) && !bounds(most)) return {result};
  return {node.call(
      "clip_by_value", {result},
      {{"min", bounds(least) ? *least : -INFINITY}, {"max", bounds(most) ? *most : INFINITY}})};
}

Tensors cast_to(NodeImport& node, DType to) {
  if (to == DType::kFloat32) to = node.compute_dtype();
  if (node.in(0).value && node.in(0).reference.kind == Reference::Kind::kNone)
    return {node.constant(converted(*node.in(0).value, to))};
  const Tensor x = node.operand(0);
  return {x.dtype == to ? x : node.call("cast", {x}, {{"dtype", to}})};
}

Tensors cast(NodeImport& node) {
  node.ignore("saturate");
  return cast_to(node, read_dtype(static_cast<int>(node.integer("to", 0))));
}

Tensors cast_like(NodeImport& node) { return cast_to(node, node.in(1).dtype); }

Tensors where(NodeImport& node) {
  return {node.call("where", {node.operand(0), node.operand(1), node.operand(2)})};
}

Tensors exclusive_or(NodeImport& node) { return two_with(node, "not_equal"); }

Tensors softmax(NodeImport& node) {
  const bool joins = node.opset() < 13;  // the axes behind `axis`
  const int axis = node.axis(node.integer("axis", joins ? 1 : -1));
  if (joins && axis != node.rank() - 1) throw Unsupported("an axis before the last");
  const int64_t written = axis == node.rank() - 1 ? -1 : axis;
  return {node.call(node.op(), {node.operand(0)}, {{"axis", written}})};
}

/// Classes along axis 1, the last one here.
Tensors softmax_cross_entropy(NodeImport& node) {
  if (node.has(2)) throw Unsupported("weights of classes");
  if (node.find("ignore_index", pb::AttributeProto::INT))
    throw Unsupported("attribute ignore_index");
  const std::string reduction = node.text("reduction", "mean");
  if (node.rank() < 2) throw Unsupported("scores without classes");
  std::vector<int64_t> perm = {0};
  for (int64_t axis = 2; axis < node.rank(); ++axis) perm.push_back(axis);
  perm.push_back(1);
  const Tensor scores = node.operand(0), labels = node.operand(1);
  const Tensor last =
      node.rank() == 2 ? scores : node.call("transpose", {scores}, {{"perm", perm}});
  Tensor loss = node.call("sparse_softmax_cross_entropy_with_logits", {labels, last});
  if (reduction == "mean" || reduction == "sum")
    loss = node.call("reduce_" + reduction, {loss},
                     {{"axis", std::vector<int64_t>{}}, {"keepdims", false}});
  else if (reduction != "none")
    throw Unsupported("an unknown reduction");
  if (node.outputs() < 2) return {loss};
  return {loss, node.call("log_softmax", {scores}, {{"axis", int64_t{1}}})};
}

constexpr ImportRule kArithmeticImports[] = {
    {"Identity", same},
    {"Abs", unary, "abs"},
    {"Neg", unary, "negative"},
    {"Sign", unary, "sign"},
    {"Round", unary, "round"},
    {"Ceil", unary, "ceil"},
    {"Floor", unary, "floor"},
    {"Sqrt", unary, "sqrt"},
    {"Erf", unary, "erf"},
    {"Exp", unary, "exp"},
    {"Log", unary, "log"},
    {"Sin", unary, "sin"},
    {"Cos", unary, "cos"},
    {"Tan", unary, "tan"},
    {"Asin", unary, "asin"},
    {"Acos", unary, "acos"},
    {"Atan", unary, "atan"},
    {"Sinh", unary, "sinh"},
    {"Cosh", unary, "cosh"},
    {"Tanh", unary, "tanh"},
    {"Sigmoid", unary, "sigmoid"},
    {"Relu", unary, "relu"},
    {"HardSwish", unary, "hardswish"},
    {"Softplus", unary, "softplus"},
    {"Softsign", unary, "softsign"},
    {"Mish", unary, "mish"},
    {"Reciprocal", unary, "reciprocal"},
    {"Not", unary, "logical_not"},
    {"LeakyRelu", with_alpha, "leaky_relu"},
    {"Elu", with_alpha, "elu"},
    {"Celu", with_alpha, "celu"},
    {"HardSigmoid", hard_sigmoid},
    {"Shrink", shrink},
    {"Selu", selu},
    {"ThresholdedRelu", thresholded_relu},
    {"Gelu", gelu},
    {"PRelu", prelu},
    {"Clip", clip},
    {"Cast", cast},
    {"CastLike", cast_like},
    {"Add", binary, "add"},
    {"Sub", binary, "subtract"},
    {"Mul", binary, "multiply"},
    {"Div", divide, "divide"},
    {"Pow", power, "pow"},
    {"Greater", binary, "greater"},
    {"GreaterOrEqual", binary, "greater_equal"},
    {"Less", binary, "less"},
    {"LessOrEqual", binary, "less_equal"},
    {"Equal", binary, "equal"},
    {"And", binary, "logical_and"},
    {"Or", binary, "logical_or"},
    {"Xor", exclusive_or},
    {"Max", variadic, "maximum"},
    {"Min", variadic, "minimum"},
    {"Sum", variadic, "add"},
    {"Mean", mean},
    {"Where", where},
    {"Softmax", softmax, "softmax"},
    {"LogSoftmax", softmax, "log_softmax"},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
};

}  // namespace

std::span<const ImportRule> arithmetic_imports() { return kArithmeticImports; }

}  // namespace flow::onnx
