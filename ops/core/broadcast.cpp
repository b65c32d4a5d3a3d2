// NumPy's broadcasting: shapes and batch axes.
#include "ops/core/broadcast.h"

#include <fmt/format.h>

#include "ops/core/axes.h"

namespace flow::ops {
namespace {

/// Where an operand's batch axis lies in the result.
int batch_in(const Shape& out, const Shape& shape, int batch_axis) {
  if (batch_axis < 0) return batch_axis;
  const int axis = batch_axis + out.rank() - shape.rank();
  return shape[batch_axis] == out[axis] ? axis : kBatchReduced;
}

}  // namespace

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape out = longer;
  for (int axis = 0; axis < shorter.rank(); ++axis) {
    int64_t& extent = out[axis + out.rank() - shorter.rank()];
    if (extent != shorter[axis] && extent != 1 && shorter[axis] != 1) return {};
    if (extent == 1) extent = shorter[axis];
  }
  return out;
}

int broadcast_batch(const Shape& out, const Shape& a, int a_batch, const Shape& b, int b_batch) {
  return common_batch(batch_in(out, a, a_batch), batch_in(out, b, b_batch));
}

void infer_broadcast(Call& call, DType dtype) {
  Shape out = call.shape(0);
  int batch_axis = call.operand(0).batch_axis;
  for (size_t i = 1; i < call.operands(); ++i) {
    const Operand& next = call.operand(i);
    const auto both = broadcast(out, next.shape);
    if (!both) {
      call.bad_operand(i, Reason::kShapeMismatch,
                       fmt::format("{} and {} do not broadcast", out.str(), next.shape.str()))
          .with_hint("align the shapes at the right: sizes must be equal or 1");
      return;
    }
    batch_axis = broadcast_batch(*both, out, batch_axis, next.shape, next.batch_axis);
    out = *both;
  }
  call.result(dtype, std::move(out), batch_axis);
}

void infer_broadcast(Call& call) { infer_broadcast(call, call.dtype(0)); }

}  // namespace flow::ops
