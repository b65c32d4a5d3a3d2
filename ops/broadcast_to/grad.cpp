// Gradient of broadcast_to.
#include "compiler/grad/broadcast.h"
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> broadcast_to_gradient(GradientContext& context) {
  return {sum_to_operand(context, 0, context.gradient())};
}

}  // namespace

std::span<const Rules> broadcast_to() {
  static constexpr Rules kRules[] = {{"broadcast_to", broadcast_to_gradient}};
  return kRules;
}

}  // namespace flow::grad
