// NumPy's broadcasting: shapes, the row axis, in the compiler.
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

}  // namespace flow
