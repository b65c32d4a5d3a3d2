// NumPy's broadcasting: shapes and batch axes.
#pragma once

#include <optional>

#include "ops/core/call.h"

namespace flow::ops {

/// The shape of a result; nothing where the shapes do not broadcast.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// The batch axis of a result of shape `out`. Rows that are copied along other rows reduce.
int broadcast_batch(const Shape& out, const Shape& a, int a_batch, const Shape& b, int b_batch);

/// A result of that dtype and of the shape to which all operands broadcast; reports those that do
/// not.
void infer_broadcast(Call& call, DType dtype);
/// The same of operand 0's dtype.
void infer_broadcast(Call& call);

}  // namespace flow::ops
