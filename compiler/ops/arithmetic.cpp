// Elementwise arithmetic.
#include "compiler/grad/broadcast.h"
#include "compiler/ops/broadcast.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

using ir::ValueId;

void infer_arithmetic(Inference& inference) {
  if (inference.same_dtype()) infer_broadcast(inference);
}

std::vector<ValueId> add_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(2);
  for (size_t i = 0; i < 2; ++i)
    if (context.wanted[i]) gradients[i] = sum_to_operand(context, i, context.gradient());
  return gradients;
}

std::vector<ValueId> subtract_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(2);
  if (context.wanted[0]) gradients[0] = sum_to_operand(context, 0, context.gradient());
  if (context.wanted[1]) gradients[1] = summed(context, 1, "negative", {context.gradient()});
  return gradients;
}

std::vector<ValueId> multiply_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(2);
  for (size_t i = 0; i < 2; ++i)
    if (context.wanted[i])
      gradients[i] = summed(context, i, "multiply", {context.gradient(), context.operand(1 - i)});
  return gradients;
}

/// da = dy / b, db = -dy y / b
std::vector<ValueId> divide_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(2);
  const ValueId dy = context.gradient(), b = context.operand(1);
  if (context.wanted[0]) gradients[0] = summed(context, 0, "divide", {dy, b});
  if (!context.wanted[1]) return gradients;
  const ValueId quotient = context.add("divide", 1, {dy, b}, {}, "divide");
  const ValueId product = context.add("multiply", 1, {quotient, context.result(0)}, {}, "multiply");
  gradients[1] = summed(context, 1, "negative", {product});
  return gradients;
}

std::vector<ValueId> pow_gradient(GradientContext& context) {
  constexpr std::string_view kOps[] = {"pow_grad_base", "pow_grad_exponent"};
  std::vector<ValueId> gradients(2);
  for (size_t i = 0; i < 2; ++i)
    if (context.wanted[i])
      gradients[i] =
          summed(context, i, kOps[i], {context.gradient(), context.operand(0), context.operand(1)});
  return gradients;
}

/// Where `op` holds of the operands, the first takes the gradient, elsewhere the second.
std::vector<ValueId> choice_gradient(GradientContext& context, std::string_view op) {
  std::vector<ValueId> gradients(2);
  for (size_t i = 0; i < 2; ++i) {
    if (!context.wanted[i]) continue;
    const ValueId first =
        context.add(op, i, {context.operand(0), context.operand(1)}, {}, "condition");
    gradients[i] = chosen_gradient(context, i, first, i == 0);
  }
  return gradients;
}

std::vector<ValueId> maximum_gradient(GradientContext& context) {
  return choice_gradient(context, "greater_equal");
}

std::vector<ValueId> minimum_gradient(GradientContext& context) {
  return choice_gradient(context, "less_equal");
}

std::vector<ValueId> scale_gradient(GradientContext& context) {
  return {context.add("scale", 0, {context.gradient()},
                      {{"factor", *context.node.attributes.find("factor")}})};
}

OpDef pair(std::string_view name, std::string_view doc, std::string_view formula, Accepts accepts,
           GradientRule gradient, std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"a", "any shape", accepts}, {"b", "any shape, same dtype as a", accepts}},
          .infer = infer_arithmetic,
          .gradient = gradient,
          .examples = std::move(examples)};
}

OpDef pow_grad(std::string_view name, std::string_view doc, std::string_view formula) {
  return {
      .name = name,
      .doc = doc,
      .formula = formula,
      .operands = {{"dy", "same shape as the result"}, {"a", "the base"}, {"b", "the exponent"}},
      .infer = infer_broadcast,
      .internal = true};
}

}  // namespace

std::span<const OpDef> arithmetic() {
  static const OpDef kOps[] = {
      pair("add", "Adds elementwise; shapes broadcast, integers wrap around.", "y = a + b",
           Accepts::kNumber, add_gradient,
           {"add(f32[3,4], f32[3,4])", "add(f32[2,3,4], f32[3,1])", "add(f32[1,4], f32[3,1])",
            "add(f32[3], f32[])", "add(i32[3,4], i32[4])", "add(u8[5], u8[5])"}),
      pair(
          "subtract", "Subtracts elementwise; shapes broadcast, integers wrap around.", "y = a - b",
          Accepts::kNumber, subtract_gradient,
          {"subtract(f32[3,4], f32[3,4])", "subtract(f32[4], f32[3,1])", "subtract(u8[5], u8[5])"}),
      pair("multiply", "Multiplies elementwise; shapes broadcast, integers wrap around.", "y = a b",
           Accepts::kNumber, multiply_gradient,
           {"multiply(f32[3,4], f32[3,4])", "multiply(f32[2,3,4], f32[3,1])",
            "multiply(f32[1,4], f32[3,1])", "multiply(f32[3], f32[])", "multiply(i64[3,4], i64[4])",
            "multiply(i8[5], i8[5])"}),
      pair("divide", "Divides floats elementwise; shapes broadcast.", "y = a / b", Accepts::kFloat,
           divide_gradient,
           {"divide(f32[3,4], f32[3,4])", "divide(f32[4], f32[3,1])", "divide(f32[], f32[3])"}),
      pair("pow",
           "Raises a to the power b elementwise; shapes broadcast. Integers wrap around; a "
           "negative integer exponent gives 0, except for the bases 1 and -1.",
           "y = a^b", Accepts::kNumber, pow_gradient,
           {"pow(f32[3,4], f32[3,4])", "pow(f32[3,4], f32[])", "pow(f32[4], f32[3,1])",
            "pow(i32[5], i32[5])"}),
      pow_grad("pow_grad_base", "Gradient of pow with respect to the base.", "da = dy b a^(b-1)"),
      pow_grad("pow_grad_exponent", "Gradient of pow with respect to the exponent.",
               "db = dy a^b ln a"),
      pair("maximum",
           "Elementwise maximum; shapes broadcast. NaN if either operand is NaN; on ties, the "
           "first operand receives the gradient.",
           "y = max(a, b)", Accepts::kNumber, maximum_gradient,
           {"maximum(f32[3,4], f32[3,4])", "maximum(f32[4], f32[3,1])", "maximum(i8[5], i8[])"}),
      pair("minimum",
           "Elementwise minimum; shapes broadcast. NaN if either operand is NaN; on ties, the "
           "first operand receives the gradient.",
           "y = min(a, b)", Accepts::kNumber, minimum_gradient,
           {"minimum(f32[3,4], f32[3,4])", "minimum(f32[4], f32[3,1])", "minimum(i8[5], i8[])"}),
      {
          .name = "scale",
          .doc = "Multiplies by a constant.",
          .formula = "y = factor x",
          .operands = {{"x", "any shape"}},
          .attributes = {{"factor", AttributeType::kNumber, "", "the constant factor"}},
          .infer = infer_like_operand,
          .gradient = scale_gradient,
          .elementwise = true,
          .internal = true,
          .examples = {"scale(f32[3,4]) factor=0.25"},
      },
  };
  return kOps;
}

}  // namespace flow::defs
