// Gradients of choices.
#include "compiler/grad/broadcast.h"
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> where_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(3);
  for (size_t i = 1; i < 3; ++i)
    if (context.wanted[i]) gradients[i] = chosen_gradient(context, i, context.operand(0), i == 1);
  return gradients;
}

}  // namespace

std::span<const Rules> comparison() {
  static constexpr Rules kRules[] = {{"where", where_gradient}};
  return kRules;
}

}  // namespace flow::grad
