// NumPy's broadcasting: shapes, the row axis, and its gradient.
#pragma once

#include <optional>

#include "compiler/ops/op_def.h"

namespace flow {

/// The shape to which both broadcast, or nothing.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// The row axis of a result of shape `out`, element by element from operands of these shapes and
/// row axes, aligned at the last axis.
int broadcast_rows(const Shape& out, const Shape& a, int a_rows, const Shape& b, int b_rows);

/// Infers a result to which all operands broadcast; reports shapes that do not fit.
void infer_broadcast(Inference& inference, DType dtype);
/// The same of operand 0's dtype.
void infer_broadcast(Inference& inference);

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
