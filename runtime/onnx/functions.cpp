// Functions with one operand.
#include <cmath>
#include <numbers>

#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

void square(StepExport& step) { step.result("Mul", {step.in().name, step.in().name}); }

void trunc(StepExport& step) {
  const std::string& x = step.in().name;
  step.result("Where", {step.node("Less", {x, step.number(0)}), step.node("Ceil", {x}),
                        step.node("Floor", {x})});
}

void relu6(StepExport& step) {
  step.result("Clip", {step.in().name, step.number(0), step.number(6)});
}

void with_alpha(StepExport& step) {
  step.result(step.type(), {step.in().name}, {{"alpha", step.float32("alpha")}});
}

/// Writes Elu with a scale, because Celu does not support float64.
void celu(StepExport& step) {
  const std::string alpha = step.number(step.attribute<double>("alpha"));
  const std::string scaled = step.node("Div", {step.in().name, alpha});
  step.result("Mul", {alpha, step.node("Elu", {scaled}, {{"alpha", 1.0F}})});
}

void selu(StepExport& step) {
  step.result("Selu", {step.in().name},
              {{"alpha", 1.6732632423543772F}, {"gamma", 1.0507009873554805F}});
}

/// Writes x (1 + `bend`) / 2.
void half_of(StepExport& step, const std::string& bend) {
  const std::string raised = step.node("Add", {bend, step.number(1)});
  step.result("Mul", {step.node("Mul", {step.in().name, step.number(0.5)}), raised});
}

void gelu_tanh(StepExport& step) {
  const std::string& x = step.in().name;
  const std::string cube = step.node("Mul", {step.node("Mul", {x, x}), x});
  const std::string sum = step.node("Add", {x, step.node("Mul", {cube, step.number(0.044715)})});
  const std::string root = step.number(std::sqrt(2 / std::numbers::pi));
  half_of(step, step.node("Tanh", {step.node("Mul", {sum, root})}));
}

void gelu(StepExport& step) {
  if (step.attribute<std::string>("approximate") == "tanh") return gelu_tanh(step);
  const std::string scaled = step.node("Div", {step.in().name, step.number(std::numbers::sqrt2)});
  half_of(step, step.node("Erf", {scaled}));
}

void silu(StepExport& step) {
  step.result("Mul", {step.in().name, step.node("Sigmoid", {step.in().name})});
}

/// Writes Mish from other operators, because its operator requires opset 18.
void mish(StepExport& step) {
  const std::string bend = step.node("Tanh", {step.node("Softplus", {step.in().name})});
  step.result("Mul", {step.in().name, bend});
}

void hard_sigmoid(StepExport& step) {
  step.result("HardSigmoid", {step.in().name},
              {{"alpha", step.float32("alpha")}, {"beta", step.float32("beta")}});
}

void log_sigmoid(StepExport& step) {
  step.result("Neg", {step.node("Softplus", {step.node("Neg", {step.in().name})})});
}

void softshrink(StepExport& step) {
  const float distance = step.float32("lambd");
  step.result("Shrink", {step.in().name}, {{"bias", distance}, {"lambd", distance}});
}

void threshold(StepExport& step) {
  const std::string& x = step.in().name;
  const std::string above =
      step.node("Greater", {x, step.number(step.attribute<double>("threshold"))});
  step.result("Where", {above, x, step.number(step.attribute<double>("value"))});
}

void expm1(StepExport& step) {
  step.result("Sub", {step.node("Exp", {step.in().name}), step.number(1)});
}

void log1p(StepExport& step) {
  step.result("Log", {step.node("Add", {step.in().name, step.number(1)})});
}

void rsqrt(StepExport& step) { step.result("Reciprocal", {step.node("Sqrt", {step.in().name})}); }

void clip(StepExport& step) {
  const auto min = step.attribute<double>("min"), max = step.attribute<double>("max");
  Strings inputs = {step.in().name, std::isinf(min) ? "" : step.number(min)};
  if (!std::isinf(max)) inputs.push_back(step.number(max));
  step.result("Clip", inputs);
}

void scale(StepExport& step) {
  step.result("Mul", {step.in().name, step.number(step.attribute<double>("factor"))});
}

void isfinite(StepExport& step) {
  const std::string& x = step.in().name;
  step.result("Not", {step.node("Or", {step.node("IsNaN", {x}), step.node("IsInf", {x})})});
}

void cast(StepExport& step) {
  step.result("Cast", {step.in().name}, {{"to", data_type_of(step.out().dtype)}});
}

Tensors unary(NodeImport& node) { return {node.call(node.op(), {node.operand(0)})}; }

Tensors same(NodeImport& node) { return {node.in(0)}; }

Tensors is_infinite(NodeImport& node) {
  const Tensor x = node.operand(0), zero = NodeImport::scalar(0, x.dtype);
  Tensor result = node.call("isinf", {x});
  const auto only = [&](std::string_view side) {
    result = node.call("logical_and", {result, node.call(side, {x, zero})});
  };
  if (node.integer("detect_negative", 1) == 0) only("greater");
  if (node.integer("detect_positive", 1) == 0) only("less");
  return {result};
}

Tensors with_alpha(NodeImport& node) {
  const double otherwise = node.type() == "LeakyRelu" ? 0.01 : 1.0;
  return {node.call(node.op(), {node.operand(0)}, {{"alpha", node.number("alpha", otherwise)}})};
}

Tensors hard_sigmoid(NodeImport& node) {
  return {node.call("hard_sigmoid", {node.operand(0)},
                    {{"alpha", node.number("alpha", 0.2)}, {"beta", node.number("beta", 0.5)}})};
}

/// Reads x sigmoid(alpha x). If there is a second operand, the result is the product of both
/// (SwiGLU).
Tensors swish(NodeImport& node) {
  const double alpha = node.number("alpha", 1);
  const Tensor x = node.operand(0);
  Tensor result = node.call("silu", {x});
  if (alpha != 1) {
    const Tensor bent = node.call("multiply", x, alpha);
    result = node.call("multiply", {x, node.call("sigmoid", {bent})});
  }
  return {node.has(1) ? node.call("multiply", {result, node.operand(1)}) : result};
}

Tensors shrink(NodeImport& node) {
  const double bias = node.number("bias", 0), lambd = node.number("lambd", 0.5);
  const Tensor x = node.operand(0);
  if (bias == lambd) return {node.call("softshrink", {x}, {{"lambd", lambd}})};
  const Tensor below = node.call("where", {node.call("less", x, -lambd), node.call("add", x, bias),
                                           NodeImport::scalar(0, x.dtype)});
  return {
      node.call("where", {node.call("greater", x, lambd), node.call("subtract", x, bias), below})};
}

Tensors selu(NodeImport& node) {
  const double alpha = node.number("alpha", 1.6732632), gamma = node.number("gamma", 1.050701);
  const Tensor bent = node.call("elu", {node.operand(0)}, {{"alpha", alpha}});
  return {node.call("multiply", bent, gamma)};
}

Tensors thresholded_relu(NodeImport& node) {
  return {node.call("threshold", {node.operand(0)},
                    {{"threshold", node.number("alpha", 1)}, {"value", 0.0}})};
}

Tensors gelu(NodeImport& node) {
  return {
      node.call("gelu", {node.operand(0)}, {{"approximate", node.text("approximate", "none")}})};
}

/// Returns true if the slopes can be the weights of a layer: a constant with one slope for each
/// channel (axis 1), or one for all.
bool has_layer_slopes(NodeImport& node) {
  const Shape &x = node.in(0).shape, &slope = node.in(1).shape;
  if (!node.in(1).value || !node.is_float(1) || x.rank() < 2) return false;
  if (slope.elements() == 1) return true;
  const bool for_channels = slope.rank() == x.rank() - 1 && slope[0] == x[1];
  return slope.elements() == x[1] && (for_channels || node.opset() < 7);
}

/// Before opset 7, there is one slope for each channel (axis 1).
Tensors prelu(NodeImport& node) {
  const Tensor x = node.operand(0);
  if (has_layer_slopes(node)) {
    const int64_t slopes = node.in(1).shape.elements();
    return {node.layer("prelu", {x}, {{"shared", slopes == 1}}, x.shape, x.batch_axis,
                       {{"alpha", reshaped(node.value(1), Shape{slopes})}}, {1})};
  }
  Tensor slope = node.operand_or_number(1, x);
  if (node.opset() < 7 && slope.shape.elements() > 1) {
    Sizes extents(static_cast<size_t>(std::max(1, x.shape.rank() - 1)), fixed(1));
    extents[0] = product(slope.all_sizes());
    slope = node.reshape(slope, extents);
  }
  const Tensor below = node.call("multiply", {node.call("minimum", x, 0), slope});
  return {node.call("add", {node.call("relu", {x}), below})};
}

/// Returns a bound, which is an attribute before opset 11 and an operand since opset 11.
std::optional<double> bound(NodeImport& node, std::string_view name, int operand) {
  if (const auto* found = node.find(name, pb::AttributeProto::FLOAT)) return double{found->f()};
  if (!node.has(operand)) return {};
  const Array wide = converted(node.value(operand), DType::kFloat64);
  if (wide.shape().elements() != 1) refuse("bounds of several elements");
  return wide.as<double>()[0];
}

Tensors clip(NodeImport& node) {
  const auto least = bound(node, "min", 1), most = bound(node, "max", 2);
  Tensor result = node.operand(0);
  if (!node.is_float()) {
    // The lowest and highest integers do not limit the result, and doubles cannot represent them
    // exactly.
    constexpr double kMostExact = 0x1p53;
    if (least && *least > -kMostExact) result = node.call("maximum", result, *least);
    if (most && *most < kMostExact) result = node.call("minimum", result, *most);
    return {result};
  }
  // The lowest and highest floats do not limit the result.
  const auto bounds = [](const std::optional<double>& end) {
    return end && std::abs(*end) < 3.4e38;
  };
  if (!bounds(least) && !bounds(most)) return {result};
  return {node.call(
      "clip_by_value", {result},
      {{"min", bounds(least) ? *least : -INFINITY}, {"max", bounds(most) ? *most : INFINITY}})};
}

Tensors cast_to(NodeImport& node, DType to) {
  // These only affect 8-bit floats.
  for (const std::string_view name : {"saturate", "round_mode"}) node.ignore(name);
  if (to == DType::kFloat32) to = node.compute_dtype();
  const Tensor x = node.operand(0);
  return {node.cast(x, to)};
}

Tensors cast(NodeImport& node) {
  return cast_to(node, read_dtype(static_cast<int>(node.integer("to", 0))));
}

Tensors cast_like(NodeImport& node) { return cast_to(node, node.in(1).dtype); }

constexpr Rule kFunctionRules[] = {
    {"negative", "Neg", direct, unary, !kBroadcasts, kWidens},
    {"abs", "Abs", direct, unary},
    {"sign", "Sign", direct, unary},
    {"square", "", square, nullptr, !kBroadcasts, kWidens},
    {"floor", "Floor", direct, unary},
    {"ceil", "Ceil", direct, unary},
    {"round", "Round", direct, unary},
    {"trunc", "", trunc},
    {"relu", "Relu", direct, unary},
    {"relu6", "", relu6},
    {"leaky_relu", "LeakyRelu", with_alpha, with_alpha},
    {"", "PRelu", nullptr, prelu},
    {"elu", "Elu", with_alpha, with_alpha},
    {"selu", "Selu", selu, selu},
    {"celu", "Celu", celu, with_alpha},
    {"gelu", "Gelu", gelu, gelu},
    {"silu", "Swish", silu, swish},
    {"", "SwiGLU", nullptr, swish},
    {"hardswish", "HardSwish", direct, unary},
    {"mish", "Mish", mish, unary},
    {"hard_sigmoid", "HardSigmoid", hard_sigmoid, hard_sigmoid},
    {"log_sigmoid", "", log_sigmoid},
    {"softsign", "Softsign", direct, unary},
    {"softshrink", "Shrink", softshrink, shrink},
    {"threshold", "ThresholdedRelu", threshold, thresholded_relu},
    {"softplus", "Softplus", direct, unary},
    {"sigmoid", "Sigmoid", direct, unary},
    {"tanh", "Tanh", direct, unary},
    {"erf", "Erf", direct, unary},
    {"exp", "Exp", direct, unary},
    {"expm1", "", expm1},
    {"log", "Log", direct, unary},
    {"log1p", "", log1p},
    {"sqrt", "Sqrt", direct, unary},
    {"rsqrt", "", rsqrt},
    {"reciprocal", "Reciprocal", direct, unary},
    {"sin", "Sin", direct, unary},
    {"cos", "Cos", direct, unary},
    {"tan", "Tan", direct, unary},
    {"asin", "Asin", direct, unary},
    {"acos", "Acos", direct, unary},
    {"atan", "Atan", direct, unary},
    {"sinh", "Sinh", direct, unary},
    {"cosh", "Cosh", direct, unary},
    {"asinh", "Asinh", direct, unary},
    {"acosh", "Acosh", direct, unary},
    {"atanh", "Atanh", direct, unary},
    {"isnan", "IsNaN", direct, unary},
    {"isinf", "IsInf", direct, is_infinite},
    {"isfinite", "", isfinite},
    {"clip_by_value", "Clip", clip, clip},
    {"scale", "", scale},
    {"copy", "Identity", direct, same},
    {"cast", "Cast", cast, cast},
    {"", "CastLike", nullptr, cast_like},
    {"logical_not", "Not", direct, unary},
};

}  // namespace

std::span<const Rule> function_rules() { return kFunctionRules; }

}  // namespace flow::onnx
