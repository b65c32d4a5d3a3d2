// The gradient of scaled dot product attention.
#include "compiler/grad/rules.h"
#include "compiler/ir/builder.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> attention_gradient(GradientContext& context) {
  std::vector<ir::ValueId> operands = {context.gradient(), context.operand(0), context.operand(1),
                                       context.operand(2), context.result(0),  context.result(1)};
  if (context.node.operands.size() > 3) operands.push_back(context.operand(3));
  AttributeSpans spans;
  spans.op = context.node.span;
  std::vector<ir::ValueId> gradients =
      context.builder.add(*ops::find_spec("scaled_dot_product_attention_grad"), context.names[0],
                          std::move(operands), context.node.attributes, spans);
  gradients.resize(context.node.operands.size());
  return gradients;
}

}  // namespace

std::span<const Rules> attention() {
  static constexpr Rules kRules[] = {{"scaled_dot_product_attention", attention_gradient}};
  return kRules;
}

}  // namespace flow::grad
