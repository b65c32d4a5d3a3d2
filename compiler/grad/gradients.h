// What gradients of several families use: operands that were broadcast, and constants.
#pragma once

#include <string_view>

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

/// A tensor of equal elements on the way to the gradient of operand i.
inline ir::ValueId filled(GradientContext& context, size_t i, double value, const Shape& shape,
                          DType dtype, std::string_view part = {}) {
  return context.add("fill", i, {},
                     {{"value", value}, {"shape", shape.extents()}, {"dtype", dtype}}, part);
}

/// Zeros like `of`.
inline ir::ValueId zeros_like(GradientContext& context, size_t i, const ir::Value& of,
                              std::string_view part = {}) {
  return filled(context, i, 0, of.shape, of.dtype, part);
}

}  // namespace flow
