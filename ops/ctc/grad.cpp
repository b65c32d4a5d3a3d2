// The gradient of connectionist temporal classification.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> ctc_gradient(GradientContext& context) {
  std::vector<ir::ValueId> operands = context.node.operands;
  operands.push_back(context.gradient());
  std::vector<ir::ValueId> gradients(context.node.operands.size());
  gradients[1] = context.add("ctc_grad", 1, std::move(operands),
                             {{"blank", *context.node.attributes.find("blank")}});
  return gradients;
}

}  // namespace

std::span<const Rules> ctc() {
  static constexpr Rules kRules[] = {{"ctc", ctc_gradient}};
  return kRules;
}

}  // namespace flow::grad
