// Functions of one operand, element by element, and their gradients.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ops/families.h"

namespace flow::ops {
namespace {

/// What the gradient op reads beside dy.
enum class Reads { kOperand, kResult };

/// A function whose gradient is an op of its own.
struct Function {
  std::string_view name, doc, formula;
  std::string_view gradient, gradient_formula;
  Reads reads;
  std::vector<AttributeDef> attributes = {};
  std::vector<std::string_view> examples;
};

AttributeDef alpha(std::string_view fallback, std::string_view doc) {
  return {"alpha", AttributeType::kNumber, fallback, doc};
}

const std::vector<Function>& functions_with_gradients() {
  static const std::vector<Function> kAll = {
      {"relu",
       "Rectified linear unit; the gradient at 0 is 0. NaN stays NaN.",
       "y = x <= 0 ? 0 : x",
       "relu_grad",
       "dx = y <= 0 ? 0 : dy",
       Reads::kResult,
       {},
       {"relu(f32[3,4])", "relu(f32[2,3,5,7])", "relu(f32[])"}},
      {"relu6",
       "ReLU clipped at 6; the gradient at 0 and at 6 is 0.",
       "y = min(max(x, 0), 6)",
       "relu6_grad",
       "dx = 0 < x < 6 ? dy : 0",
       Reads::kOperand,
       {},
       {"relu6(f32[3,4])"}},
      {"leaky_relu",
       "ReLU with a small slope below 0.",
       "y = x > 0 ? x : alpha x",
       "leaky_relu_grad",
       "dx = x > 0 ? dy : alpha dy",
       Reads::kOperand,
       {alpha("0.01", "slope below 0")},
       {"leaky_relu(f32[3,4])", "leaky_relu(f32[7]) alpha=0.3"}},
      {"elu",
       "Exponential linear unit (Clevert et al., 2015).",
       "y = x > 0 ? x : alpha (e^x - 1)",
       "elu_grad",
       "dx = x > 0 ? dy : alpha e^x dy",
       Reads::kOperand,
       {alpha("1", "scale of the negative part: the limit at -inf is -alpha")},
       {"elu(f32[3,4])", "elu(f32[7]) alpha=0.3"}},
      {"gelu",
       "Gaussian error linear unit (Hendrycks and Gimpel, 2016).",
       "y = x (1 + erf(x / sqrt 2)) / 2, or x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2",
       "gelu_grad",
       "dx = dy y'(x)",
       Reads::kOperand,
       {{.name = "approximate",
         .type = AttributeType::kText,
         .fallback = "none",
         .doc = "approximation to use; tanh selects the second formula",
         .choices = {"none", "tanh"}}},
       {"gelu(f32[3,4])", "gelu(f32[3,4]) approximate=tanh"}},
      {"silu",
       "Sigmoid linear unit, also called swish.",
       "y = x / (1 + e^-x)",
       "silu_grad",
       "dx = dy s (1 + x (1 - s)), s = 1 / (1 + e^-x)",
       Reads::kOperand,
       {},
       {"silu(f32[3,4])"}},
      {"hardswish",
       "Piecewise approximation of swish (Howard et al., 2019); the gradient is 0 at -3 and 1 at "
       "3.",
       "y = x min(max(x + 3, 0), 6) / 6",
       "hardswish_grad",
       "dx = dy (x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 1/2)",
       Reads::kOperand,
       {},
       {"hardswish(f32[3,4])"}},
      {"softplus",
       "Smooth approximation of ReLU, numerically stable for large inputs.",
       "y = ln(1 + e^x)",
       "softplus_grad",
       "dx = dy / (1 + e^-x)",
       Reads::kOperand,
       {},
       {"softplus(f32[3,4])"}},
      {"sigmoid",
       "Logistic function.",
       "y = 1 / (1 + e^-x)",
       "sigmoid_grad",
       "dx = dy y (1 - y)",
       Reads::kResult,
       {},
       {"sigmoid(f32[3,4])"}},
      {"tanh",
       "Hyperbolic tangent.",
       "y = tanh x",
       "tanh_grad",
       "dx = dy (1 - y^2)",
       Reads::kResult,
       {},
       {"tanh(f32[3,4])"}},
      {"exp",
       "Exponential function.",
       "y = e^x",
       "exp_grad",
       "dx = dy y",
       Reads::kResult,
       {},
       {"exp(f32[3,4])"}},
      {"log",
       "Natural logarithm; -inf at 0, NaN for negative inputs.",
       "y = ln x",
       "log_grad",
       "dx = dy / x",
       Reads::kOperand,
       {},
       {"log(f32[3,4])"}},
      {"sqrt",
       "Square root; NaN for negative inputs.",
       "y = sqrt x",
       "sqrt_grad",
       "dx = dy / (2 y)",
       Reads::kResult,
       {},
       {"sqrt(f32[3,4])"}},
      {"rsqrt",
       "Reciprocal square root; inf at 0, NaN for negative inputs.",
       "y = 1 / sqrt x",
       "rsqrt_grad",
       "dx = -dy y^3 / 2",
       Reads::kResult,
       {},
       {"rsqrt(f32[3,4])"}},
      {"sin",
       "Sine; the input is in radians.",
       "y = sin x",
       "sin_grad",
       "dx = dy cos x",
       Reads::kOperand,
       {},
       {"sin(f32[3,4])"}},
      {"cos",
       "Cosine; the input is in radians.",
       "y = cos x",
       "cos_grad",
       "dx = -dy sin x",
       Reads::kOperand,
       {},
       {"cos(f32[3,4])"}},
      {"clip_by_value",
       "Clips to [min, max]; one bound can be omitted. Elements at a bound pass the gradient.",
       "y = min(max(x, min), max)",
       "clip_by_value_grad",
       "dx = min <= x <= max ? dy : 0",
       Reads::kOperand,
       {{"min", AttributeType::kNumber, "-inf", "lower bound"},
        {"max", AttributeType::kNumber, "inf", "upper bound"}},
       {"clip_by_value(f32[3,4]) min=-0.5 max=0.25", "clip_by_value(f32[7]) min=0.1",
        "clip_by_value(f32[7]) max=0.1"}},
  };
  return kAll;
}

void infer_clip(Inference& inference) {
  const double min = inference.attribute<double>("min"), max = inference.attribute<double>("max");
  if (std::isinf(min) && std::isinf(max))
    inference.bad_op(Diagnosis::kMissingAttribute, "`clip_by_value` needs `min` or `max`");
  else if (!(min <= max))
    inference.bad_attribute("min", Diagnosis::kOutOfRange,
                            fmt::format("`min` is {}; expected at most `max`: {}", min, max));
  infer_like_operand(inference);
}

void infer_function_grad(Inference& inference) {
  const ir::Value& dy = inference.operand(0);
  if (!inference.same_dtype()) return;
  if (inference.shape(1) == dy.shape)
    inference.result(dy.dtype, dy.shape, dy.rows);
  else
    inference.bad_operand(1, Diagnosis::kShapeMismatch,
                          fmt::format("the operands are {} and {}; expected equal shapes",
                                      dy.shape.str(), inference.shape(1).str()));
}

std::vector<ir::ValueId> function_gradient(GradientContext& context) {
  const auto& all = functions_with_gradients();
  const auto function = std::ranges::find(all, context.node.op->name, &Function::name);
  const ir::ValueId read =
      function->reads == Reads::kResult ? context.result(0) : context.operand(0);
  return {context.add(function->gradient, 0, {context.gradient(), read}, context.node.attributes)};
}

std::vector<ir::ValueId> negative_gradient(GradientContext& context) {
  return {context.add("negative", 0, {context.gradient()}, {})};
}

std::vector<ir::ValueId> abs_gradient(GradientContext& context) {
  const ir::ValueId sign = context.add("sign", 0, {context.operand(0)}, {}, "sign");
  return {context.add("multiply", 0, {context.gradient(), sign}, {})};
}

std::vector<ir::ValueId> square_gradient(GradientContext& context) {
  const ir::ValueId twice =
      context.add("scale", 0, {context.operand(0)}, {{"factor", 2.0}}, "scale");
  return {context.add("multiply", 0, {context.gradient(), twice}, {})};
}

/// Flat: the loss does not change with the operand but at 0.
std::vector<ir::ValueId> sign_gradient(GradientContext& context) {
  const ir::Value& x = context.value_of(context.operand(0));
  return {context.add("fill", 0, {},
                      {{"value", 0.0}, {"shape", x.shape.extents()}, {"dtype", x.dtype}})};
}

OpDef function_of_numbers(std::string_view name, std::string_view doc, std::string_view formula,
                          GradientRule gradient, std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape", Accepts::kNumber}},
          .infer = infer_like_operand,
          .gradient = gradient,
          .elementwise = true,
          .examples = std::move(examples)};
}

OpDef forward(const Function& function) {
  return {.name = function.name,
          .doc = function.doc,
          .formula = function.formula,
          .operands = {{"in", "any shape"}},
          .attributes = function.attributes,
          .infer = function.name == "clip_by_value" ? infer_clip : infer_like_operand,
          .gradient = function_gradient,
          .elementwise = true,
          .examples = function.examples};
}

OpDef backward(const Function& function) {
  const OperandDef read = function.reads == Reads::kResult
                              ? OperandDef{"y", "result of the function"}
                              : OperandDef{"x", "operand of the function"};
  return {.name = function.gradient,
          .doc = "Gradient of the function in its name.",
          .formula = function.gradient_formula,
          .operands = {{"dy", "any shape"}, read},
          .attributes = function.attributes,
          .infer = infer_function_grad,
          .elementwise = true,
          .internal = true};
}

std::vector<OpDef> all_functions() {
  std::vector<OpDef> ops = {
      function_of_numbers("negative", "Negation; integers wrap around.", "y = -x",
                          negative_gradient, {"negative(f32[3,4])", "negative(u8[5])"}),
      function_of_numbers("abs", "Absolute value; the gradient at 0 is 0. Integers wrap around.",
                          "y = |x|", abs_gradient, {"abs(f32[3,4])", "abs(i32[5])"}),
      function_of_numbers("sign", "Sign: -1, 0 or 1; NaN for NaN. The gradient is 0.",
                          "y = x < 0 ? -1 : x > 0 ? 1 : x", sign_gradient,
                          {"sign(f32[3,4])", "sign(i8[5])"}),
      function_of_numbers("square", "Square; integers wrap around.", "y = x^2", square_gradient,
                          {"square(f32[3,4])", "square(i64[5])"}),
  };
  for (const Function& function : functions_with_gradients()) {
    ops.push_back(forward(function));
    ops.push_back(backward(function));
  }
  return ops;
}

}  // namespace

std::span<const OpDef> functions() {
  static const std::vector<OpDef> kOps = all_functions();
  return kOps;
}

}  // namespace flow::ops
