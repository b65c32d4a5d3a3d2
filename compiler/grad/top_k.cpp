// The gradient of top_k.
#include "compiler/grad/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> top_k_gradient(GradientContext& context) {
  const auto axis = context.node.attributes.get<int64_t>("axis");
  const int64_t extent = context.value_of(context.operand(0)).shape[static_cast<int>(axis)];
  return {context.add("top_k_grad", 0, {context.gradient(), context.result(1)},
                      {{"axis", axis}, {"extent", extent}})};
}

}  // namespace

std::span<const Rules> top_k() {
  static constexpr Rules kRules[] = {{"top_k", top_k_gradient}};
  return kRules;
}

}  // namespace flow::grad
