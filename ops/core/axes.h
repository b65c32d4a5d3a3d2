// Rules for axes: how attributes name them, where the batch axis goes, and NumPy's broadcasting.
#pragma once

#include <optional>
#include <vector>

#include "ops/core/call.h"

namespace flow::ops {

/// Returns `axis`, which counts from the end if it is negative, as an axis of a shape of that rank,
/// or nothing if it is out of range.
std::optional<int> axis_in(int64_t axis, int rank);

/// Returns `axis`, the value of the attribute `axis`, as an axis of `shape`. Reports a value that
/// is out of range.
std::optional<int> axis_in_range(Call& call, int64_t axis, const Shape& shape);

/// Replaces the attribute `axis`, which may be negative, by the axis of operand i that it names.
void normalize_axis(Call& call, Attributes& attributes, size_t i);
/// Replaces the attribute `axis` by the axis of operand 0 that it names. The signature is that of a
/// NormalizeRule.
void normalize_axis(Call& call, Attributes& attributes);

/// Replaces the attribute `axis` by `axes`: the sorted axes of operand i that it lists, or all axes
/// if the list is empty. Reports axes that are out of range or repeated.
void normalize_axes(Call& call, Attributes& attributes, size_t i);

/// Returns the normalized attribute `axis` as an axis of operand i. Reports a value that is out of
/// range.
std::optional<int> axis_of(Call& call, size_t i = 0);

/// Returns true if the normalized attribute `axes` contains only axes of that shape; otherwise
/// reports it.
bool have_axes(Call& call, const Shape& shape);

/// Returns the extents of `outside` with those of axes [axis, axis + dropped) replaced by `inside`.
Shape replaced_axes(const Shape& outside, int axis, int dropped, const Shape& inside);

// Each of these functions takes the batch axis of an operand and returns the batch axis of a
// result.

/// Returns the axis of `to` that contains the rows of `batch_axis` of `from`, which has the same
/// elements. The number of elements before the two axes must be equal, and the axis of `to` must
/// still divide into rows. `batch` is the batch size of the job, or 0.
int reshaped_batch(const Shape& from, int batch_axis, const Shape& to, int64_t batch);
/// The batch axis of a result whose operands have the same layout as the result.
int common_batch(int a, int b);
/// Keeps a batch axis before `axis`, and otherwise returns kBatchReduced, because the op computes
/// all elements along `axis` and the later axes together.
int batch_before(int batch_axis, int axis);
/// Keeps a batch axis at or after `axis`, counted from `axis`, and otherwise returns kBatchReduced,
/// because the op sums over the axes before `axis`.
int batch_from(int batch_axis, int axis);
/// Keeps a batch axis other than `axis`, and otherwise returns kBatchReduced, because the op
/// computes all elements along `axis` together.
int batch_beside(int batch_axis, int axis);
/// Keeps a batch axis equal to `axis`, and otherwise returns kBatchReduced, because the op computes
/// all elements along the other axes together.
int batch_along(int batch_axis, int axis);
/// The batch axis of the vector along `axis` that remains after a sum over all other axes.
int batch_of_vector(int batch_axis, int axis);

/// Returns `how`, which combines the results of shards after a reduction over the rows of that
/// batch axis, or kNone if there are no rows.
Combine combined(int batch_axis, Combine how);

/// Shape functions of ops whose result has the shape of operand 0 and that compute all elements
/// along the axis together, and of their gradients, whose operand 1 has the same shape.
void infer_along_axis(Call& call);
void infer_along_axis_grad(Call& call);

/// Returns the shape to which two shapes broadcast, or nothing if they do not broadcast.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// Returns the batch axis of a result of shape `out`. If the batch axis of an operand is broadcast
/// along a longer axis, the operand counts as reduced.
int broadcast_batch(const Shape& out, const Shape& a, int a_batch, const Shape& b, int b_batch);

/// Adds a result of that dtype and of the shape to which all operands broadcast. Reports operands
/// that do not broadcast.
void infer_broadcast(Call& call, DType dtype);
/// Adds a result of this shape with the dtype of operand 0.
void infer_broadcast(Call& call);

}  // namespace flow::ops
