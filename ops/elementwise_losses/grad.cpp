// Gradients of losses of one element each.
#include <fmt/format.h>

#include "compiler/grad/broadcast.h"
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

using ir::ValueId;

/// The gradient op named after the loss, with its attributes, for operand i.
ValueId add_loss_grad(GradientContext& context, size_t i, std::string_view op,
                      std::string_view part) {
  return context.add(op, i, {context.gradient(), context.operand(0), context.operand(1)},
                     context.node.attributes, part);
}

/// A function of a - b: what one operand gets, the other loses.
std::vector<ValueId> difference_gradient(GradientContext& context) {
  const std::string op = fmt::format("{}_grad", context.node.op->name);
  std::vector<ValueId> gradients(2);
  const size_t first = context.wanted[0] ? 0 : 1;
  const ValueId all = add_loss_grad(context, first, op, op);
  if (context.wanted[0]) gradients[0] = sum_to_operand(context, 0, all);
  if (context.wanted[1])
    gradients[1] = sum_to_operand(context, 1, context.add("negative", 1, {all}, {}, "negative"));
  return gradients;
}

std::vector<ValueId> cross_entropy_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(2);
  if (context.wanted[0]) {
    const ValueId product =
        context.add("multiply", 0, {context.gradient(), context.operand(1)}, {}, "multiply");
    gradients[0] =
        sum_to_operand(context, 0, context.add("negative", 0, {product}, {}, "negative"));
  }
  constexpr std::string_view kGrad = "sigmoid_cross_entropy_with_logits_grad";
  if (context.wanted[1])
    gradients[1] =
        sum_to_operand(context, 1, add_loss_grad(context, 1, kGrad, "cross_entropy_grad"));
  return gradients;
}

}  // namespace

std::span<const Rules> elementwise_losses() {
  static constexpr Rules kRules[] = {
      {"mse", difference_gradient},
      {"l1", difference_gradient},
      {"smooth_l1", difference_gradient},
      {"sigmoid_cross_entropy_with_logits", cross_entropy_gradient},
  };
  return kRules;
}

}  // namespace flow::grad
