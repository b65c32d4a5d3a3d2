// Operators of one operand, arithmetic and comparisons, and nodes that draw random numbers. A seed
// makes no difference: the random numbers of flow follow from the job's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

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
  Sizes extents = b.all_sizes();
  extents.resize(extents.size() + static_cast<size_t>(behind), fixed(1));
  return node.reshape(b, extents);
}

/// Two operands, of which one may be a number.
std::pair<Tensor, Tensor> two_operands(NodeImport& node) {
  const bool first_is_known = node.in(0).value != nullptr && !node.in(1).value;
  const Tensor a = first_is_known ? node.operand_or_number(0, node.in(1)) : node.operand(0);
  return {a, at_axis(node, a)};
}

Tensors two_with(NodeImport& node, std::string_view op) {
  const auto [a, b] = two_operands(node);
  return {node.call(op, {a, b})};
}

Tensors binary(NodeImport& node) { return two_with(node, node.op()); }

/// The result has the dtype of the base.
Tensors power(NodeImport& node) {
  const DType base = node.in(0).dtype, exponent = node.in(1).dtype;
  if (base == exponent) return binary(node);
  const DType common = !node.is_float(0) && node.is_float(1) ? exponent : base;
  const auto operand = [&](Tensor x) {
    if (x.dtype == common) return x;
    if (x.reference.kind != Reference::Kind::kNumber)
      return node.call("cast", {x}, {{"dtype", common}});
    x.dtype = common;
    return x;
  };
  const auto [a, b] = two_operands(node);
  const Tensor first = operand(a);
  const Tensor result = node.call("pow", {first, operand(b)});
  return {common == base ? result : node.call("cast", {result}, {{"dtype", base}})};
}

/// ONNX divides integers toward 0; floor_divide does so where nothing remains.
Tensors divide(NodeImport& node) {
  if (node.is_float()) return binary(node);
  const auto [a, b] = two_operands(node);
  if (a.dtype == DType::kUInt8) return {node.call("floor_divide", {a, b})};
  const Tensor whole = node.call("subtract", {a, node.call("fmod", {a, b})});
  return {node.call("floor_divide", {whole, b})};
}

Tensors modulo(NodeImport& node) {
  return two_with(node, node.integer("fmod", 0) != 0 ? "fmod" : "mod");
}

/// By a power of 2: uint8 has none above its bits, and a division by 0 gives 0. A right shift of
/// other integers keeps the sign, so that two divisions by positive powers follow each other.
Tensors bit_shift(NodeImport& node) {
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") throw Unsupported("an unknown direction");
  const Tensor x = node.operand(0);
  Tensor places = node.operand(1);
  if (node.is_float() || x.dtype == DType::kBool)
    throw Unsupported(fmt::format("dtype {}", name_of(x.dtype)));
  const auto number = [&](double value) { return NodeImport::scalar(value, x.dtype); };
  const auto power = [&](const Tensor& of) { return node.call("pow", {number(2), of}); };
  if (direction == "LEFT") return {node.call("multiply", {x, power(places)})};
  if (x.dtype == DType::kUInt8) return {node.call("floor_divide", {x, power(places)})};
  const double most = static_cast<double>(8 * size_of(x.dtype)) - 2;
  const Tensor below = node.call("less", {places, number(0)});
  places = node.call("where", {below, number(2 * most), places});  // all bits leave
  const Tensor first = node.call("minimum", {places, number(most)});
  const Tensor rest = node.call("minimum", {node.call("subtract", {places, first}), number(most)});
  const Tensor shifted = node.call("floor_divide", {x, power(first)});
  return {node.call("floor_divide", {shifted, power(rest)})};
}

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

/// x sigmoid(alpha x), a gate for the second operand of SwiGLU.
Tensors swish(NodeImport& node) {
  const double alpha = node.number("alpha", 1);
  const Tensor x = node.operand(0);
  Tensor result = node.call("silu", {x});
  if (alpha != 1) {
    const Tensor bent = node.call("multiply", {x, NodeImport::scalar(alpha, x.dtype)});
    result = node.call("multiply", {x, node.call("sigmoid", {bent})});
  }
  return {node.has(1) ? node.call("multiply", {result, node.operand(1)}) : result};
}

Tensors shrink(NodeImport& node) {
  const double bias = node.number("bias", 0), lambd = node.number("lambd", 0.5);
  const Tensor x = node.operand(0);
  if (bias == lambd) return {node.call("softshrink", {x}, {{"lambd", lambd}})};
  const auto number = [&](double value) { return NodeImport::scalar(value, x.dtype); };
  const Tensor below = node.call("where", {node.call("less", {x, number(-lambd)}),
                                           node.call("add", {x, number(bias)}), number(0)});
  return {node.call("where", {node.call("greater", {x, number(lambd)}),
                              node.call("subtract", {x, number(bias)}), below})};
}

Tensors selu(NodeImport& node) {
  const double alpha = node.number("alpha", 1.6732632), gamma = node.number("gamma", 1.050701);
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

/// Are the slopes those of a layer: known, one for each channel, axis 1, or one for all?
bool has_layer_slopes(NodeImport& node) {
  const Shape &x = node.in(0).shape, &slope = node.in(1).shape;
  if (!node.in(1).value || !node.is_float(1) || x.rank() < 2) return false;
  if (slope.elements() == 1) return true;
  const bool for_channels = slope.rank() == x.rank() - 1 && slope[0] == x[1];
  return slope.elements() == x[1] && (for_channels || node.opset() < 7);
}

/// Before opset 7 a slope for each channel, axis 1.
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
    // The lowest and the highest integer bound nothing, and are no exact doubles.
    constexpr double kFar = 0x1p53;
    if (least && *least > -kFar)
      result = node.call("maximum", {result, NodeImport::scalar(*least, result.dtype)});
    if (most && *most < kFar)
      result = node.call("minimum", {result, NodeImport::scalar(*most, result.dtype)});
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
  for (const std::string_view name : {"saturate", "round_mode"}) node.ignore(name);  // of 8 bits
  if (to == DType::kFloat32) to = node.compute_dtype();
  const Tensor x = node.operand(0);
  return {x.dtype == to ? x : node.call("cast", {x}, {{"dtype", to}})};
}

Tensors cast(NodeImport& node) {
  return cast_to(node, read_dtype(static_cast<int>(node.integer("to", 0))));
}

Tensors cast_like(NodeImport& node) { return cast_to(node, node.in(1).dtype); }

Tensors where(NodeImport& node) {
  return {node.call("where", {node.operand(0), node.operand(1), node.operand(2)})};
}

Tensors exclusive_or(NodeImport& node) { return two_with(node, "not_equal"); }

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
    {"Asinh", unary, "asinh"},
    {"Acosh", unary, "acosh"},
    {"Atanh", unary, "atanh"},
    {"IsNaN", unary, "isnan"},
    {"IsInf", is_infinite},
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
    {"Swish", swish},
    {"SwiGLU", swish},
    {"PRelu", prelu},
    {"Clip", clip},
    {"Cast", cast},
    {"CastLike", cast_like},
    {"Add", binary, "add"},
    {"Sub", binary, "subtract"},
    {"Mul", binary, "multiply"},
    {"Div", divide, "divide"},
    {"Mod", modulo},
    {"BitShift", bit_shift},
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
};

using Integers = std::vector<int64_t>;

/// The dtype of what is drawn. Floats become that of the job.
DType drawn_dtype(NodeImport& node, DType otherwise) {
  node.ignore("seed");
  DType dtype = otherwise;
  if (const auto* found = node.find("dtype", pb::AttributeProto::INT))
    dtype = read_dtype(static_cast<int>(found->i()));
  return is_float(dtype) ? node.compute_dtype() : dtype;
}

/// Numbers of a shape, or of the shape of the operand.
Tensors draw(NodeImport& node) {
  if (!is_float(drawn_dtype(node, DType::kFloat32))) throw Unsupported("integers (dtype)");
  ops::Attributes attributes;
  const bool normal = node.op() == "random_normal";
  attributes.set(normal ? "mean" : "minimum", node.number(normal ? "mean" : "low", 0));
  attributes.set(normal ? "stddev" : "maximum", node.number(normal ? "scale" : "high", 1));
  const auto shape = node.integers("shape");
  if (!shape) return {node.call(node.op(), {node.operand(0)}, attributes)};
  attributes.set("shape", *shape);
  return {node.call(node.op(), {}, attributes)};
}

Tensors bernoulli(NodeImport& node) {
  const DType dtype = drawn_dtype(node, node.in(0).dtype);
  return {node.call("bernoulli", {node.operand(0)}, {{"dtype", dtype}})};
}

Tensors multinomial(NodeImport& node) {
  const DType dtype = drawn_dtype(node, DType::kInt32);
  const Tensor x = node.operand(0);
  if (x.shape.rank() != 2) throw Unsupported("operand " + x.shape.str());
  const int64_t samples = node.integer("sample_size", 1);
  Tensor drawn = node.layer("multinomial", {x}, {{"samples", samples}}, Shape{x.shape[0], samples},
                            x.batch_axis == 0 ? 0 : ops::kNoBatch);
  drawn.dtype = DType::kInt64;
  if (!x.sizes.empty()) drawn.sizes = {x.size(0), fixed(samples)};
  if (dtype == DType::kInt64) return {drawn};
  return {node.call("cast", {drawn}, {{"dtype", dtype}})};
}

constexpr ImportRule kRandomImports[] = {
    {"RandomNormal", draw, "random_normal"},
    {"RandomNormalLike", draw, "random_normal"},
    {"RandomUniform", draw, "random_uniform"},
    {"RandomUniformLike", draw, "random_uniform"},
    {"Bernoulli", bernoulli},
    {"Multinomial", multinomial},
};

}  // namespace

std::span<const ImportRule> arithmetic_imports() { return kArithmeticImports; }

std::span<const ImportRule> random_imports() { return kRandomImports; }

}  // namespace flow::onnx
