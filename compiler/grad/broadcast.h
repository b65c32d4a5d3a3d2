// Gradients of operands that were broadcast.
#pragma once

#include "compiler/ir/rules.h"

namespace flow {

/// The gradient of operand i from that of a result to which it was broadcast: the sum over the
/// copies. Where there were none, `gradient` itself.
ir::ValueId sum_to_operand(GradientContext& context, size_t i, ir::ValueId gradient);

/// The gradient of operand i from `op` over all elements of the result.
ir::ValueId summed(GradientContext& context, size_t i, std::string_view op,
                   std::vector<ir::ValueId> operands);

/// The gradient of operand i that the result was taken from where `condition` is `when`: elsewhere
/// it gets zeros.
ir::ValueId chosen_gradient(GradientContext& context, size_t i, ir::ValueId condition, bool when);

}  // namespace flow
