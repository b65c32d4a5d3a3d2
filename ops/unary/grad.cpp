// The gradients of unary ops.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

using ir::ValueId;

std::vector<ValueId> add_unary_grad(GradientContext& context, ValueId read) {
  return {context.add(fmt::format("{}_grad", context.node.op->name), 0, {context.gradient(), read},
                      context.node.attributes)};
}

std::vector<ValueId> gradient_reading_operand(GradientContext& context) {
  return add_unary_grad(context, context.operand(0));
}

std::vector<ValueId> gradient_reading_result(GradientContext& context) {
  return add_unary_grad(context, context.result(0));
}

std::vector<ValueId> negative_gradient(GradientContext& context) {
  return {context.add("negative", 0, {context.gradient()})};
}

std::vector<ValueId> abs_gradient(GradientContext& context) {
  const ValueId sign = context.add("sign", 0, {context.operand(0)}, {}, "sign");
  return {context.add("multiply", 0, {context.gradient(), sign})};
}

std::vector<ValueId> square_gradient(GradientContext& context) {
  const ValueId twice = context.add("scale", 0, {context.operand(0)}, {{"factor", 2.0}}, "scale");
  return {context.add("multiply", 0, {context.gradient(), twice})};
}

/// The gradient of a step function is 0, because the function is constant between its steps.
std::vector<ValueId> step_gradient(GradientContext& context) {
  return {zeros_like(context, 0, context.value_of(context.operand(0)))};
}

}  // namespace

std::vector<Rules> unary() {
  constexpr GradientRule kOperand = gradient_reading_operand, kResult = gradient_reading_result;
  return {
      {"negative", negative_gradient},
      {"abs", abs_gradient},
      {"sign", step_gradient},
      {"square", square_gradient},
#define FLOW_UNARY_STEP_SPEC(op, ...) {#op, step_gradient},
#define FLOW_UNARY_SPEC(op, domain, parameters, doc, formula, numpy, grad_formula, reads, ...) \
  {#op, reads},
#include "ops/unary/unary.def"
  };
}

}  // namespace flow::grad
