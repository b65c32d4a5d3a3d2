// The gradient of flip.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> flip_gradient(GradientContext& context) {
  return {context.add("flip", 0, {context.gradient()},
                      {{"axis", *context.node.attributes.find("axes")}})};
}

}  // namespace

std::span<const Rules> flip() {
  static constexpr Rules kRules[] = {{"flip", flip_gradient}};
  return kRules;
}

}  // namespace flow::grad
