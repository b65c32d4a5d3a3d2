// NumPy's broadcasting: shapes, the row axis, and its gradient.
#include "compiler/ops/broadcast.h"

#include <fmt/format.h>

#include "compiler/ops/axes.h"

namespace flow {
namespace {

/// Where an operand's row axis lies in the result. Rows that are copied along other rows mix.
int rows_in(const Shape& out, const Shape& shape, int rows) {
  if (rows < 0) return rows;
  const int axis = rows + out.rank() - shape.rank();
  return shape[rows] == out[axis] ? axis : ir::kMixedRows;
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

int broadcast_rows(const Shape& out, const Shape& a, int a_rows, const Shape& b, int b_rows) {
  return common_rows(rows_in(out, a, a_rows), rows_in(out, b, b_rows));
}

void infer_broadcast(Inference& inference, DType dtype) {
  const ir::Value& first = inference.operand(0);
  Shape out = first.shape;
  int rows = first.rows;
  for (size_t i = 1; i < inference.operands(); ++i) {
    const ir::Value& next = inference.operand(i);
    const auto both = broadcast(out, next.shape);
    if (!both) {
      inference
          .bad_operand(i, Diagnosis::kShapeMismatch,
                       fmt::format("{} and {} do not broadcast", out.str(), next.shape.str()))
          .with_hint("align the shapes at the right: sizes must be equal or 1");
      return;
    }
    rows = broadcast_rows(*both, out, rows, next.shape, next.rows);
    out = *both;
  }
  inference.result(dtype, out, rows);
}

void infer_broadcast(Inference& inference) {
  infer_broadcast(inference, inference.operand(0).dtype);
}

}  // namespace flow
