// Gradients of bias_add.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> bias_add_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0]) gradients[0] = context.gradient();
  if (context.wanted[1])
    gradients[1] =
        context.add("bias_add_grad", 1, {context.gradient()}, context.attributes({"axis"}));
  return gradients;
}

}  // namespace

std::vector<Rules> bias_add() { return {{"bias_add", bias_add_gradient}}; }

}  // namespace flow::grad
