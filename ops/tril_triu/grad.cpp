// Gradients of tril and triu.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> triangle_gradient(GradientContext& context) {
  return {context.add(context.node.op->name, 0, {context.gradient()},
                      {{"diagonal", *context.node.attributes.find("diagonal")}})};
}

}  // namespace

std::span<const Rules> tril_triu() {
  static constexpr Rules kRules[] = {{"tril", triangle_gradient}, {"triu", triangle_gradient}};
  return kRules;
}

}  // namespace flow::grad
