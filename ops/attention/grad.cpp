// Scaled dot product attention: the layer with its optional operands, and the gradients.
#include "compiler/grad/shared_parts.h"
#include "ops/attention/problem.h"

namespace flow::grad {
namespace {

using ir::ValueId;

/// Adds the primitive with the operands that are present.
ValueId expand_attention(LayerContext& context) {
  std::vector<ValueId> operands;
  AttributeSpans spans = context.spans;
  spans.operands.clear();
  for (size_t i = 0; i < context.operands.size(); ++i) {
    if (!context.operands[i].valid()) continue;
    operands.push_back(context.operands[i]);
    spans.operands.push_back(context.spans.of_operand(i));
  }
  return context.builder
      .add(*ops::find_spec("scaled_dot_product_attention"), context.name, std::move(operands),
           context.attributes, spans)
      .front();
}

std::vector<ValueId> attention_gradient(GradientContext& context) {
  const std::vector<ValueId>& given = context.node.operands;
  const auto at = ops::AttentionOperands::find(
      false, given.size(), [&](size_t i) { return context.value_of(given[i]).dtype; });
  const std::vector<ValueId> forward = {context.gradient(), given[0],          given[1],
                                        given[2],           context.result(0), context.result(1)};
  std::vector<ValueId> operands = forward;
  operands.insert(operands.end(), given.begin() + 3, given.end());
  std::vector<ValueId> gradients = context.add_all("scaled_dot_product_attention_grad",
                                                   std::move(operands), context.node.attributes);
  gradients.resize(given.size());
  if (!at.bias || !context.wanted[*at.bias]) return gradients;
  operands = forward;
  operands.push_back(given[*at.bias]);
  for (const auto other : {at.mask, at.lengths})
    if (other) operands.push_back(given[*other]);
  gradients[*at.bias] = context.add("scaled_dot_product_attention_grad_bias", *at.bias,
                                    std::move(operands), context.node.attributes);
  return gradients;
}

}  // namespace

std::vector<Rules> attention() {
  return {{"scaled_dot_product_attention", attention_gradient, expand_attention}};
}

}  // namespace flow::grad
