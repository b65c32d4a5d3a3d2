// Rules for axes: how attributes name them, where the batch axis goes, and NumPy's broadcasting.
#include "ops/core/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace flow::ops {
namespace {

/// Returns the axis of the result at which the batch axis of an operand ends up.
int batch_in(const Shape& out, const Shape& shape, int batch_axis) {
  if (batch_axis < 0) return batch_axis;
  const int axis = batch_axis + out.rank() - shape.rank();
  return shape[batch_axis] == out[axis] ? axis : kBatchReduced;
}

}  // namespace

std::optional<int> axis_in(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return {};
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::optional<int> axis_in_range(Call& call, int64_t axis, const Shape& shape) {
  const int rank = shape.rank();
  if (const auto found = axis_in(axis, rank)) return found;
  const std::string range = rank == 0 ? std::string("a scalar has no axes")
                                      : fmt::format("expected {} to {}", -rank, rank - 1);
  call.bad_attribute("axis", Reason::kBadAttribute,
                     fmt::format("{} has no axis {}; {}", shape.str(), axis, range));
  return {};
}

void normalize_axis(Call& call, Attributes& attributes, size_t i) {
  const auto axis = axis_in_range(call, call.attribute<int64_t>("axis"), call.shape(i));
  if (axis) attributes.set("axis", int64_t{*axis});
}

void normalize_axis(Call& call, Attributes& attributes) { normalize_axis(call, attributes, 0); }

void normalize_axes(Call& call, Attributes& attributes, size_t i) {
  const Shape& shape = call.shape(i);
  std::vector<int64_t> axes;
  for (const int64_t given : call.integers("axis")) {
    const auto axis = axis_in_range(call, given, shape);
    if (!axis) return;
    axes.push_back(*axis);
  }
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(shape.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::ranges::sort(axes);
  if (const auto twice = std::ranges::adjacent_find(axes); twice != axes.end())
    call.bad_attribute("axis", Reason::kBadAttribute, fmt::format("duplicate axis {}", *twice));
  attributes.erase("axis");
  attributes.set("axes", std::move(axes));
}

std::optional<int> axis_of(Call& call, size_t i) {
  return axis_in_range(call, call.attribute<int64_t>("axis"), call.shape(i));
}

bool have_axes(Call& call, const Shape& shape) {
  const std::vector<int64_t>& axes = call.integers("axes");
  if (axes.empty() || axes.back() < shape.rank()) return true;
  call.bad_attribute(
      "axes", Reason::kBadAttribute,
      fmt::format("axes {} are out of range for {}", Shape(axes).str(), shape.str()));
  return false;
}

Shape replaced_axes(const Shape& outside, int axis, int dropped, const Shape& inside) {
  std::vector<int64_t> extents = outside.extents();
  const auto at = extents.erase(extents.begin() + axis, extents.begin() + axis + dropped);
  extents.insert(at, inside.begin(), inside.end());
  return Shape(std::move(extents));
}

int reshaped_batch(const Shape& from, int batch_axis, const Shape& to, int64_t batch) {
  if (batch_axis < 0) return batch_axis;
  if (batch <= 0 || from[batch_axis] % batch != 0) batch = from[batch_axis];
  const int64_t before = from.elements(0, batch_axis);
  const int64_t inside = from.elements(batch_axis, from.rank());
  for (int axis = 0; axis < to.rank(); ++axis)
    if (to.elements(0, axis) == before && to.elements(axis, to.rank()) == inside &&
        to[axis] % batch == 0)
      return axis;
  return kBatchReduced;
}

int common_batch(int a, int b) {
  if (a == kNoBatch || a == b) return b;
  return b == kNoBatch ? a : kBatchReduced;
}

int batch_before(int batch_axis, int axis) {
  return batch_axis >= axis ? kBatchReduced : batch_axis;
}

int batch_from(int batch_axis, int axis) {
  if (batch_axis == kNoBatch) return kNoBatch;
  return batch_axis >= axis ? batch_axis - axis : kBatchReduced;
}

int batch_beside(int batch_axis, int axis) {
  return batch_axis == axis ? kBatchReduced : batch_axis;
}

int batch_along(int batch_axis, int axis) {
  return batch_axis == kNoBatch || batch_axis == axis ? batch_axis : kBatchReduced;
}

int batch_of_vector(int batch_axis, int axis) {
  const int along = batch_along(batch_axis, axis);
  return along < 0 ? along : 0;
}

Combine combined(int batch_axis, Combine how) { return batch_axis >= 0 ? how : Combine::kNone; }

void infer_along_axis(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return;
  const Operand& x = call.operand(0);
  call.result(x.dtype, x.shape, batch_beside(x.batch_axis, *axis));
}

void infer_along_axis_grad(Call& call) {
  const auto axis = axis_of(call);
  if (!axis || !call.have_shape(1, 2, call.shape(0))) return;
  const Operand& dy = call.operand(0);
  const int batch_axis = common_batch(dy.batch_axis, call.operand(1).batch_axis);
  call.result(dy.dtype, dy.shape, batch_beside(batch_axis, *axis));
}

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
