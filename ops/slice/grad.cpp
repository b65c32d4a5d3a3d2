// The gradient of slice.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> slice_gradient(GradientContext& context) {
  const ir::Attributes& taken = context.node.attributes;
  const Shape x = context.value_of(context.operand(0)).shape;
  return {context.add("slice_grad", 0, {context.gradient()},
                      {{"starts", *taken.find("starts")},
                       {"steps", *taken.find("steps")},
                       {"counts", *taken.find("counts")},
                       {"input_shape", x.extents()}})};
}

}  // namespace

std::span<const Rules> slice() {
  static constexpr Rules kRules[] = {{"slice", slice_gradient}};
  return kRules;
}

}  // namespace flow::grad
