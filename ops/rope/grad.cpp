// The gradient of rotary position embeddings.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> rope_gradient(GradientContext& context) {
  std::vector<ir::ValueId> operands = context.node.operands;
  operands[0] = context.gradient();
  std::vector<ir::ValueId> gradients(operands.size());
  gradients[0] = context.add("rope_grad", 0, std::move(operands), context.node.attributes);
  return gradients;
}

}  // namespace

std::vector<Rules> rope() { return {{"rope", rope_gradient}}; }

}  // namespace flow::grad
