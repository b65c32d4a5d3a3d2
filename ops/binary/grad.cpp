// Gradients of elementwise arithmetic and of ops that select elements.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

using ir::ValueId;

std::vector<ValueId> add_gradient(GradientContext& context) {
  return context.each_wanted(
      [&](size_t i) { return sum_to_operand(context, i, context.gradient()); });
}

std::vector<ValueId> subtract_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(2);
  if (context.wanted[0]) gradients[0] = sum_to_operand(context, 0, context.gradient());
  if (context.wanted[1]) gradients[1] = summed(context, 1, "negative", {context.gradient()});
  return gradients;
}

std::vector<ValueId> multiply_gradient(GradientContext& context) {
  return context.each_wanted([&](size_t i) {
    return summed(context, i, "multiply", {context.gradient(), context.operand(1 - i)});
  });
}

/// Adds da = dy / b and db = -dy y / b.
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

/// Adds zeros, because the quotient is an integer that is constant between its steps.
std::vector<ValueId> floor_divide_gradient(GradientContext& context) {
  return context.each_wanted(
      [&](size_t i) { return zeros_like(context, i, context.value_of(context.operand(i))); });
}

/// Uses y = a - b q with a constant integer q = (a - y) / b, so da = dy and db = dy (y - a) / b.
std::vector<ValueId> mod_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(2);
  const ValueId dy = context.gradient(), a = context.operand(0), b = context.operand(1);
  if (context.wanted[0]) gradients[0] = sum_to_operand(context, 0, dy);
  if (!context.wanted[1]) return gradients;
  const ValueId less = context.add("subtract", 1, {context.result(0), a}, {}, "subtract");
  const ValueId quotient = context.add("divide", 1, {less, b}, {}, "divide");
  gradients[1] = summed(context, 1, "multiply", {dy, quotient});
  return gradients;
}

std::vector<ValueId> fmod_gradient(GradientContext& context) { return mod_gradient(context); }

std::vector<ValueId> pow_gradient(GradientContext& context) {
  constexpr std::string_view kOps[] = {"pow_grad_base", "pow_grad_exponent"};
  return context.each_wanted([&](size_t i) {
    return summed(context, i, kOps[i],
                  {context.gradient(), context.operand(0), context.operand(1)});
  });
}

/// Passes the gradient to the first operand where `op` is true, and to the second operand
/// elsewhere.
std::vector<ValueId> choice_gradient(GradientContext& context, std::string_view op) {
  return context.each_wanted([&](size_t i) {
    const ValueId first =
        context.add(op, i, {context.operand(0), context.operand(1)}, {}, "condition");
    return chosen_gradient(context, i, first, i == 0);
  });
}

std::vector<ValueId> maximum_gradient(GradientContext& context) {
  return choice_gradient(context, "greater_equal");
}

std::vector<ValueId> minimum_gradient(GradientContext& context) {
  return choice_gradient(context, "less_equal");
}

std::vector<ValueId> scale_gradient(GradientContext& context) {
  return {context.add("scale", 0, {context.gradient()}, context.attributes({"factor"}))};
}

std::vector<ValueId> where_gradient(GradientContext& context) {
  return context.each_wanted(
      [&](size_t i) { return chosen_gradient(context, i, context.operand(0), i == 1); });
}

}  // namespace

std::vector<Rules> binary() {
  return {
#define FLOW_ARITHMETIC(op, ...) {#op, op##_gradient},
#include "ops/binary/binary.def"
      {"scale", scale_gradient}, {"where", where_gradient}};
}

}  // namespace flow::grad
