// Gradients of cumsum and cumprod.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

/// Adds a cumsum in the opposite direction, because each element contributes to its own sum and all
/// later ones.
std::vector<ir::ValueId> cumsum_gradient(GradientContext& context) {
  const ir::Attributes& forward = context.node.attributes;
  return {context.add("cumsum", 0, {context.gradient()},
                      {{"axis", *forward.find("axis")},
                       {"exclusive", *forward.find("exclusive")},
                       {"reverse", !forward.get<bool>("reverse")}})};
}

std::vector<ir::ValueId> cumprod_gradient(GradientContext& context) {
  return {context.add("cumprod_grad", 0, {context.gradient(), context.operand(0)},
                      context.node.attributes)};
}

}  // namespace

std::vector<Rules> cumsum() { return {{"cumsum", cumsum_gradient}, {"cumprod", cumprod_gradient}}; }

}  // namespace flow::grad
