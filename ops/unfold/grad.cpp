// The gradients of unfold and fold: each op is the gradient of the other.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> unfold_gradient(GradientContext& context) {
  const Shape x = context.value_of(context.operand(0)).shape;
  ir::Attributes attributes = context.node.attributes;
  attributes.set("output_size", std::vector<int64_t>{x[2], x[3]});
  return {context.add("fold", 0, {context.gradient()}, std::move(attributes))};
}

std::vector<ir::ValueId> fold_gradient(GradientContext& context) {
  ir::Attributes attributes = context.node.attributes;
  attributes.erase("output_size");
  return {context.add("unfold", 0, {context.gradient()}, std::move(attributes))};
}

}  // namespace

std::vector<Rules> unfold() { return {{"unfold", unfold_gradient}, {"fold", fold_gradient}}; }

}  // namespace flow::grad
