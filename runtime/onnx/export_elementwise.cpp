// Nodes of functions of one operand, arithmetic, comparisons and losses of one element each, and
// nodes that reduce: sums and extremes over axes, softmax, cumulative sums and products, and losses
// of rows.
#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/onnx/step_export.h"

namespace flow::onnx {
namespace {

using Names = std::vector<std::string>;

/// An operator of ONNX that is the op.
void direct(StepExport& step) { step.result(step.type(), step.names()); }

/// The attribute as ONNX has it, a float32.
float float_of(const StepExport& step, std::string_view name) {
  return static_cast<float>(step.attribute<double>(name));
}

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
  step.result(step.type(), {step.in().name}, {{"alpha", float_of(step, "alpha")}});
}

/// Celu has no float64.
void celu(StepExport& step) {
  const std::string alpha = step.number(step.attribute<double>("alpha"));
  const std::string scaled = step.node("Div", {step.in().name, alpha});
  step.result("Mul", {alpha, step.node("Elu", {scaled}, {{"alpha", 1.0F}})});
}

void selu(StepExport& step) {
  step.result("Selu", {step.in().name},
              {{"alpha", 1.6732632423543772F}, {"gamma", 1.0507009873554805F}});
}

/// x (1 + `bend`) / 2
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

/// Mish is of opset 18.
void mish(StepExport& step) {
  const std::string bend = step.node("Tanh", {step.node("Softplus", {step.in().name})});
  step.result("Mul", {step.in().name, bend});
}

void hard_sigmoid(StepExport& step) {
  step.result("HardSigmoid", {step.in().name},
              {{"alpha", float_of(step, "alpha")}, {"beta", float_of(step, "beta")}});
}

void log_sigmoid(StepExport& step) {
  step.result("Neg", {step.node("Softplus", {step.node("Neg", {step.in().name})})});
}

void softshrink(StepExport& step) {
  const float distance = float_of(step, "lambd");
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
  Names inputs = {step.in().name, std::isinf(min) ? "" : step.number(min)};
  if (!std::isinf(max)) inputs.push_back(step.number(max));
  step.result("Clip", inputs);
}

void scale(StepExport& step) {
  step.result("Mul", {step.in().name, step.number(step.attribute<double>("factor"))});
}

/// The operands of a comparison: integers of different dtypes as int64.
Names compared(StepExport& step) {
  if (step.in(0).dtype == step.in(1).dtype) return step.names();
  Names names;
  for (size_t i = 0; i < 2; ++i)
    names.push_back(step.cast(step.in(i).name, step.in(i).dtype, DType::kInt64));
  return names;
}

void comparison(StepExport& step) { step.result(step.type(), compared(step)); }

void not_equal(StepExport& step) { step.result("Not", {step.node("Equal", compared(step))}); }

void isfinite(StepExport& step) {
  const std::string& x = step.in().name;
  step.result("Not", {step.node("Or", {step.node("IsNaN", {x}), step.node("IsInf", {x})})});
}

std::string remainder(StepExport& step) {
  return step.node("Mod", step.names(), {{"fmod", int64_t{1}}});
}

void fmod(StepExport& step) { step.result("Mod", step.names(), {{"fmod", int64_t{1}}}); }

/// ONNX's Mod of floats has the sign of the dividend.
void mod(StepExport& step) {
  if (!is_float(step.in().dtype)) return step.result("Mod", step.names());
  const std::string rest = remainder(step), divisor = step.in(1).name;
  const std::string signs =
      step.node("Mul", {step.node("Sign", {rest}), step.node("Sign", {divisor})});
  step.result("Where", {step.node("Less", {signs, step.number(0)}),
                        step.node("Add", {rest, divisor}), rest});
}

/// ONNX divides integers toward 0: without the remainder, nothing is rounded.
void floor_divide(StepExport& step) {
  if (is_float(step.in().dtype)) return step.result("Floor", {step.node("Div", step.names())});
  const std::string whole = step.node("Sub", {step.in(0).name, step.node("Mod", step.names())});
  step.result("Div", {whole, step.in(1).name});
}

void cast(StepExport& step) {
  step.result("Cast", {step.in().name}, {{"to", int64_t{data_type_of(step.out().dtype)}}});
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

constexpr ExportRule kElementwise[] = {
    {"negative", direct, "Neg", !kBroadcasts, kWidens},
    {"abs", direct, "Abs"},
    {"sign", direct, "Sign"},
    {"square", square, "", !kBroadcasts, kWidens},
    {"floor", direct, "Floor"},
    {"ceil", direct, "Ceil"},
    {"round", direct, "Round"},
    {"trunc", trunc},
    {"relu", direct, "Relu"},
    {"relu6", relu6},
    {"leaky_relu", with_alpha, "LeakyRelu"},
    {"elu", with_alpha, "Elu"},
    {"selu", selu},
    {"celu", celu},
    {"gelu", gelu},
    {"silu", silu},
    {"hardswish", direct, "HardSwish"},
    {"mish", mish},
    {"hard_sigmoid", hard_sigmoid},
    {"log_sigmoid", log_sigmoid},
    {"softsign", direct, "Softsign"},
    {"softshrink", softshrink},
    {"threshold", threshold},
    {"softplus", direct, "Softplus"},
    {"sigmoid", direct, "Sigmoid"},
    {"tanh", direct, "Tanh"},
    {"erf", direct, "Erf"},
    {"exp", direct, "Exp"},
    {"expm1", expm1},
    {"log", direct, "Log"},
    {"log1p", log1p},
    {"sqrt", direct, "Sqrt"},
    {"rsqrt", rsqrt},
    {"reciprocal", direct, "Reciprocal"},
    {"sin", direct, "Sin"},
    {"cos", direct, "Cos"},
    {"tan", direct, "Tan"},
    {"asin", direct, "Asin"},
    {"acos", direct, "Acos"},
    {"atan", direct, "Atan"},
    {"sinh", direct, "Sinh"},
    {"cosh", direct, "Cosh"},
    {"asinh", direct, "Asinh"},
    {"acosh", direct, "Acosh"},
    {"atanh", direct, "Atanh"},
    {"isnan", direct, "IsNaN"},
    {"isinf", direct, "IsInf"},
    {"isfinite", isfinite},
    {"clip_by_value", clip},
    {"scale", scale},
    {"copy", direct, "Identity"},
    {"cast", cast},
    {"logical_not", direct, "Not"},
    {"add", direct, "Add", kBroadcasts, kWidens},
    {"subtract", direct, "Sub", kBroadcasts, kWidens},
    {"multiply", direct, "Mul", kBroadcasts, kWidens},
    {"divide", direct, "Div", kBroadcasts},
    {"floor_divide", floor_divide, "", kBroadcasts, kWidens},
    {"mod", mod, "", kBroadcasts, kWidens},
    {"fmod", fmod, "", kBroadcasts, kWidens},
    {"pow", direct, "Pow", kBroadcasts, kWidens},
    {"maximum", direct, "Max", kBroadcasts, kWidens},
    {"minimum", direct, "Min", kBroadcasts, kWidens},
    {"equal", comparison, "Equal", kBroadcasts, kWidens},
    {"not_equal", not_equal, "", kBroadcasts, kWidens},
    {"greater", comparison, "Greater", kBroadcasts, kWidens},
    {"greater_equal", comparison, "GreaterOrEqual", kBroadcasts, kWidens},
    {"less", comparison, "Less", kBroadcasts, kWidens},
    {"less_equal", comparison, "LessOrEqual", kBroadcasts, kWidens},
    {"logical_and", direct, "And", kBroadcasts},
    {"logical_or", direct, "Or", kBroadcasts},
    {"where", direct, "Where", kBroadcasts, kWidens},
    {"mse", squared_difference, "", kBroadcasts},
    {"l1", absolute_difference, "", kBroadcasts},
    {"smooth_l1", smooth_difference, "", kBroadcasts},
    {"sigmoid_cross_entropy_with_logits", sigmoid_cross_entropy, "", kBroadcasts},
};

using Integers = std::vector<int64_t>;

int64_t kept(const StepExport& step) { return step.attribute<bool>("keepdims") ? 1 : 0; }

/// Only a scalar has no axes, for which ONNX would take all.
void reduce(StepExport& step) {
  const Integers& axes = step.integers("axes");
  if (axes.empty()) return step.result("Identity", step.names());
  // Of these, only ReduceSum has its axes as an input in opset 17.
  if (step.type() == "ReduceSum")
    return step.result("ReduceSum", {step.in().name, step.vector(axes)},
                       {{"keepdims", kept(step)}});
  step.result(step.type(), step.names(), {{"axes", axes}, {"keepdims", kept(step)}});
}

/// A maximum or minimum of bools.
void reduce_bools(StepExport& step) {
  const Integers& axes = step.integers("axes");
  if (axes.empty()) return step.result("Identity", step.names());
  const std::string numbers = step.cast(step.in().name, DType::kBool, DType::kInt32);
  const std::string reduced =
      step.node(step.type(), {numbers}, {{"axes", axes}, {"keepdims", kept(step)}});
  step.result("Cast", {reduced}, {{"to", int64_t{data_type_of(DType::kBool)}}});
}

void softmax(StepExport& step) {
  step.result(step.type(), step.names(), {{"axis", step.attribute<int64_t>("axis")}});
}

void cumsum(StepExport& step) {
  const auto axis = static_cast<double>(step.attribute<int64_t>("axis"));
  step.result("CumSum", {step.in().name, step.number(axis, DType::kInt64)},
              {{"exclusive", int64_t{step.attribute<bool>("exclusive")}},
               {"reverse", int64_t{step.attribute<bool>("reverse")}}});
}

/// `value` with its elements `count` places along an axis further from where products begin, behind
/// ones.
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

/// Opset 17 has no CumProd. Each factor doubles how many elements a product has (Hillis and Steele,
/// 1986), so that a few nodes are enough, and zeros stay exact.
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

/// The second result of both losses.
void probabilities(StepExport& step) {
  if (step.is_read(1)) step.result("Softmax", {step.in(1).name}, {{"axis", int64_t{-1}}}, 1);
}

void sparse_cross_entropy(StepExport& step) {
  const Value &labels = step.in(0), &logits = step.in(1);
  if (labels.batch_axis != logits.batch_axis) step.fix_batch();
  const int last = logits.shape.rank() - 1;
  const std::string logs = step.node("LogSoftmax", {logits.name}, {{"axis", int64_t{-1}}});
  const std::string axis = step.vector({last});
  const std::string column =
      step.node("Unsqueeze", {step.cast(labels.name, labels.dtype, DType::kInt64), axis});
  const std::string picked = step.node("GatherElements", {logs, column}, {{"axis", int64_t{last}}});
  step.result("Neg", {step.node("Squeeze", {picked, axis})});
  probabilities(step);
}

void cross_entropy(StepExport& step) {
  const std::string &labels = step.in(0).name, &logits = step.in(1).name;
  const std::string logs = step.node("LogSoftmax", {logits}, {{"axis", int64_t{-1}}});
  const std::string sum = step.node(
      "ReduceSum", {step.node("Mul", {labels, logs}), step.vector({step.in(1).shape.rank() - 1})},
      {{"keepdims", int64_t{0}}});
  step.result("Neg", {sum});
  probabilities(step);
}

constexpr ExportRule kReductions[] = {
    {"reduce_sum", reduce, "ReduceSum", !kBroadcasts, kWidens},
    {"reduce_mean", reduce, "ReduceMean"},
    {"reduce_prod", reduce, "ReduceProd", !kBroadcasts, kWidens},
    {"reduce_max", reduce, "ReduceMax"},
    {"reduce_min", reduce, "ReduceMin"},
    {"reduce_any", reduce_bools, "ReduceMax"},
    {"reduce_all", reduce_bools, "ReduceMin"},
    {"logsumexp", reduce, "ReduceLogSumExp"},
    {"softmax", softmax, "Softmax"},
    {"log_softmax", softmax, "LogSoftmax"},
    {"cumsum", cumsum, "", !kBroadcasts, kWidens},
    {"cumprod", cumprod, "", !kBroadcasts, kWidens},
    {"sparse_softmax_cross_entropy_with_logits", sparse_cross_entropy},
    {"softmax_cross_entropy_with_logits", cross_entropy, "", kBroadcasts},
};

}  // namespace

std::span<const ExportRule> elementwise_rules() { return kElementwise; }

std::span<const ExportRule> reduction_rules() { return kReductions; }

}  // namespace flow::onnx
