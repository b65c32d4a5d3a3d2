// Arithmetic, comparisons, and losses that are computed element by element.
#include <utility>

#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

/// Returns the operands of a comparison. Integers of different dtypes are cast to int64.
Strings compared(StepExport& step) {
  if (step.in(0).dtype == step.in(1).dtype) return step.names();
  Strings names;
  for (size_t i = 0; i < 2; ++i)
    names.push_back(step.cast(step.in(i).name, step.in(i).dtype, DType::kInt64));
  return names;
}

void comparison(StepExport& step) { step.result(step.type(), compared(step)); }

void not_equal(StepExport& step) { step.result("Not", {step.node("Equal", compared(step))}); }

std::string remainder(StepExport& step) { return step.node("Mod", step.names(), {{"fmod", 1}}); }

void fmod(StepExport& step) { step.result("Mod", step.names(), {{"fmod", 1}}); }

/// Writes a remainder with the sign of the divisor. ONNX's Mod of floats gives it the sign of the
/// dividend.
void mod(StepExport& step) {
  if (!is_float(step.in().dtype)) return step.result("Mod", step.names());
  const std::string rest = remainder(step), divisor = step.in(1).name;
  const std::string signs =
      step.node("Mul", {step.node("Sign", {rest}), step.node("Sign", {divisor})});
  step.result("Where", {step.node("Less", {signs, step.number(0)}),
                        step.node("Add", {rest, divisor}), rest});
}

/// ONNX divides integers toward 0. Without the remainder, the quotient is exact.
void floor_divide(StepExport& step) {
  if (is_float(step.in().dtype)) return step.result("Floor", {step.node("Div", step.names())});
  const std::string whole = step.node("Sub", {step.in(0).name, step.node("Mod", step.names())});
  step.result("Div", {whole, step.in(1).name});
}

void squared_difference(StepExport& step) {
  const std::string difference = step.node("Sub", step.names());
  step.result("Mul", {difference, difference});
}

void absolute_difference(StepExport& step) { step.result("Abs", {step.node("Sub", step.names())}); }

void smooth_difference(StepExport& step) {
  const auto beta = step.attribute<double>("beta");
  const std::string d = step.node("Abs", {step.node("Sub", step.names())});
  const std::string small = step.node("Less", {d, step.number(beta)});
  const std::string squared = step.node("Div", {step.node("Mul", {d, d}), step.number(2 * beta)});
  step.result("Where", {small, squared, step.node("Sub", {d, step.number(beta / 2)})});
}

void sigmoid_cross_entropy(StepExport& step) {
  const std::string &labels = step.in(0).name, &logits = step.in(1).name;
  step.result("Sub", {step.node("Softplus", {logits}), step.node("Mul", {logits, labels})});
}

/// Reads the second operand. Before opset 7, its axes are aligned with the axes of the first
/// operand starting with `axis`.
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

/// Reads two operands, of which one may become a number.
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
    if (x.reference.kind != Reference::Kind::kNumber) return node.cast(x, common);
    x.dtype = common;
    return x;
  };
  const auto [a, b] = two_operands(node);
  const Tensor first = operand(a);
  const Tensor result = node.call("pow", {first, operand(b)});
  return {node.cast(result, base)};
}

/// ONNX divides integers toward 0. floor_divide does the same if there is no remainder.
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

/// Shifts by multiplying with, or dividing by, a power of 2. For uint8, a power above its bits is
/// 0, and a division by 0 gives 0. A right shift of other integers keeps the sign; it is two
/// divisions by positive powers.
Tensors bit_shift(NodeImport& node) {
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") refuse("an unknown direction");
  const Tensor x = node.operand(0);
  Tensor places = node.operand(1);
  if (node.is_float() || x.dtype == DType::kBool) refuse("dtype {}", name_of(x.dtype));
  const auto number = [&](double value) { return NodeImport::scalar(value, x.dtype); };
  const auto power = [&](const Tensor& of) { return node.call("pow", {number(2), of}); };
  if (direction == "LEFT") return {node.call("multiply", {x, power(places)})};
  if (x.dtype == DType::kUInt8) return {node.call("floor_divide", {x, power(places)})};
  const double most = static_cast<double>(8 * size_of(x.dtype)) - 2;
  const Tensor below = node.call("less", {places, number(0)});
  places = node.call("where", {below, number(2 * most), places});  // shifts all bits out
  const Tensor first = node.call("minimum", {places, number(most)});
  const Tensor rest = node.call("minimum", {node.call("subtract", {places, first}), number(most)});
  const Tensor shifted = node.call("floor_divide", {x, power(first)});
  return {node.call("floor_divide", {shifted, power(rest)})};
}

/// Combines all operands with an op that has two operands.
Tensor joined(NodeImport& node, std::string_view op) {
  Tensor result = node.operand(0);
  for (int i = 1; i < node.inputs(); ++i) result = node.call(op, {result, node.operand(i)});
  return result;
}

Tensors variadic(NodeImport& node) { return {joined(node, node.op())}; }

Tensors mean(NodeImport& node) {
  const Tensor sum = joined(node, "add");
  return {node.call("divide", sum, node.inputs())};
}

Tensors where(NodeImport& node) {
  return {node.call("where", {node.operand(0), node.operand(1), node.operand(2)})};
}

Tensors exclusive_or(NodeImport& node) { return two_with(node, "not_equal"); }

constexpr Rule kArithmeticRules[] = {
    {"add", "Add", direct, binary, kBroadcasts, kWidens},
    {"add", "Sum", nullptr, variadic},
    {"", "Mean", nullptr, mean},
    {"subtract", "Sub", direct, binary, kBroadcasts, kWidens},
    {"multiply", "Mul", direct, binary, kBroadcasts, kWidens},
    {"divide", "Div", direct, divide, kBroadcasts},
    {"floor_divide", "", floor_divide, nullptr, kBroadcasts, kWidens},
    {"mod", "Mod", mod, modulo, kBroadcasts, kWidens},
    {"fmod", "", fmod, nullptr, kBroadcasts, kWidens},
    {"", "BitShift", nullptr, bit_shift},
    {"pow", "Pow", direct, power, kBroadcasts, kWidens},
    {"maximum", "Max", direct, variadic, kBroadcasts, kWidens},
    {"minimum", "Min", direct, variadic, kBroadcasts, kWidens},
    {"equal", "Equal", comparison, binary, kBroadcasts, kWidens},
    {"not_equal", "", not_equal, nullptr, kBroadcasts, kWidens},
    {"greater", "Greater", comparison, binary, kBroadcasts, kWidens},
    {"greater_equal", "GreaterOrEqual", comparison, binary, kBroadcasts, kWidens},
    {"less", "Less", comparison, binary, kBroadcasts, kWidens},
    {"less_equal", "LessOrEqual", comparison, binary, kBroadcasts, kWidens},
    {"logical_and", "And", direct, binary, kBroadcasts},
    {"logical_or", "Or", direct, binary, kBroadcasts},
    {"", "Xor", nullptr, exclusive_or},
    {"where", "Where", direct, where, kBroadcasts, kWidens},
    {"mse", "", squared_difference, nullptr, kBroadcasts},
    {"l1", "", absolute_difference, nullptr, kBroadcasts},
    {"smooth_l1", "", smooth_difference, nullptr, kBroadcasts},
    {"sigmoid_cross_entropy_with_logits", "", sigmoid_cross_entropy, nullptr, kBroadcasts},
};

}  // namespace

std::span<const Rule> arithmetic_rules() { return kArithmeticRules; }

}  // namespace flow::onnx
