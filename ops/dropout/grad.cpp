// Dropout: the layer, and the gradient of its primitive.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

/// Expands the layer, and names the random draw after the entry's path, so that the name stays the
/// same if a pass clones or moves the node.
ir::ValueId expand_dropout(LayerContext& context) {
  if (!context.train) return context.operands[0];
  ir::Attributes attributes = context.attributes;
  attributes.set("consumer", context.name);
  return context.add("dropout", "", {context.operands[0]}, std::move(attributes));
}

std::vector<ir::ValueId> dropout_gradient(GradientContext& context) {
  return {context.add("dropout_grad", 0, {context.gradient(), context.result(1)},
                      context.attributes({"rate"}))};
}

}  // namespace

std::vector<Rules> dropout() { return {{"dropout", dropout_gradient, expand_dropout}}; }

}  // namespace flow::grad
