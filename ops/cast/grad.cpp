// The gradient of cast.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

/// Passes between floats alone. Gradients are of the job's float dtype, whatever they are of.
std::vector<ir::ValueId> cast_gradient(GradientContext& context) { return {context.gradient()}; }

}  // namespace

std::span<const Rules> cast() {
  static constexpr Rules kRules[] = {
      {"cast", cast_gradient},
  };
  return kRules;
}

}  // namespace flow::grad
