// Gradients of bias_add.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> bias_add_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0]) gradients[0] = context.gradient();
  if (context.wanted[1])
    gradients[1] = context.add("bias_add_grad", 1, {context.gradient()},
                               {{"axis", *context.node.attributes.find("axis")}});
  return gradients;
}

}  // namespace

std::span<const Rules> bias_add() {
  static constexpr Rules kRules[] = {{"bias_add", bias_add_gradient}};
  return kRules;
}

}  // namespace flow::grad
