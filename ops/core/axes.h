// Axes: as attributes name them, where the batch axis of a tensor goes, and NumPy's broadcasting.
#pragma once

#include <optional>
#include <vector>

#include "ops/core/call.h"

namespace flow::ops {

/// `axis` of a shape of that rank, counted from the end where negative; nothing where it has none.
std::optional<int> axis_in(int64_t axis, int rank);

/// `axis`, given by the attribute of that name, as one of `shape`; reports one out of range.
std::optional<int> axis_in_range(Call& call, int64_t axis, const Shape& shape);

/// The attribute `axis`, which may be negative, becomes an axis of operand i.
void normalize_axis(Call& call, Attributes& attributes, size_t i);
/// The same of operand 0, as a NormalizeRule.
void normalize_axis(Call& call, Attributes& attributes);

/// The attribute `axis` becomes `axes`: sorted axes of operand i, all of them where the list is
/// empty. Reports those out of range or repeated.
void normalize_axes(Call& call, Attributes& attributes, size_t i);

/// The normalized attribute `axis` as one of operand i; reports one out of range.
std::optional<int> axis_of(Call& call, size_t i = 0);

/// Whether the normalized attribute `axes` are axes of that shape; reports them if not.
bool have_axes(Call& call, const Shape& shape);

/// Extents of `outside` but for axes [axis, axis + dropped), with `inside` in their place.
Shape replaced_axes(const Shape& outside, int axis, int dropped, const Shape& inside);

// Each takes the batch axis of an operand and returns that of a result.

/// The axis of `to` that carries the rows of `batch_axis` of `from`, of the same elements: what
/// lies before the axis must be the same, and it must still be divided into rows. `batch`: of the
/// job, or 0.
int reshaped_batch(const Shape& from, int batch_axis, const Shape& to, int64_t batch);
/// Of what is made from operands that lie as the result does.
int common_batch(int a, int b);
/// Kept where it lies before `axis`: what lies from there on is computed together.
int batch_before(int batch_axis, int axis);
/// Of the axes from `axis` on, when those before are summed over.
int batch_from(int batch_axis, int axis);
/// Kept where it is not `axis`: what lies along that is computed together.
int batch_beside(int batch_axis, int axis);
/// Kept where it is `axis`: what lies along all others is computed together.
int batch_along(int batch_axis, int axis);
/// Of the vector that is left of `axis` when all others are summed over.
int batch_of_vector(int batch_axis, int axis);

/// What combines the results of shards where rows of that batch axis are reduced; kNone where there
/// are no rows.
Combine combined(int batch_axis, Combine how);

/// Results like operand 0, of which all elements along the axis are computed together; and those of
/// their gradients, whose operand 1 has the shape, too.
void infer_along_axis(Call& call);
void infer_along_axis_grad(Call& call);

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
