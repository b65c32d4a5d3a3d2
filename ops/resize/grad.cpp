// The gradient of resize.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> resize_gradient(GradientContext& context) {
  ir::Attributes attributes = context.node.attributes;
  attributes.set("input_shape", context.value_of(context.operand(0)).shape.extents());
  return {context.add("resize_grad", 0, {context.gradient()}, std::move(attributes))};
}

}  // namespace

std::vector<Rules> resize() { return {{"resize", resize_gradient}}; }

}  // namespace flow::grad
