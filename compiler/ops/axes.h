// Axes as the file gives them: negative ones count from the end.
#pragma once

#include <optional>
#include <vector>

#include "compiler/ops/op_def.h"

namespace flow {

/// `axis`, given by the attribute of that name, as one of `shape`; reports one out of range.
std::optional<int> axis_in_range(CallSite& site, int64_t axis, const Shape& shape);

/// The attribute `axis`, normalised in place, as an axis of operand i; reports one out of range.
std::optional<int> normalise_axis(Inference& inference, size_t i);

/// The attribute `axis` of a job file replaced by the primitive's `axes`: sorted axes of operand i,
/// all of them where the list is empty. Reports those out of range or repeated.
std::optional<std::vector<int64_t>> normalise_axes(Inference& inference, size_t i);

/// The axis of `to` that carries the rows of axis `rows` of `from`, of the same elements: what lies
/// before the axis must be the same, and it must still be cut at rows. `batch`: of the job, or 0.
int reshaped_rows(const Shape& from, int rows, const Shape& to, int64_t batch);

/// The row axis of what is made from parts that lie as the result does, of these row axes.
int common_rows(int a, int b);

/// The row axis, kept where it lies before `axis`: what lies from there on is computed together.
int rows_before(int rows, int axis);
/// The row axis, kept where it is not `axis`: what lies along that is computed together.
int rows_beside(int rows, int axis);
/// The row axis, kept where it is `axis`: what lies along all others is computed together.
int rows_along(int rows, int axis);
/// The row axis of the vector that is left of `axis` when all others are summed over.
int rows_of_vector(int rows, int axis);

/// Reports operands first, first + 1, ... below `end` that are not of `expected` shape.
bool have_shape(Inference& inference, size_t first, size_t end, const Shape& expected);

/// `axis` of a shape of that rank, counted from the end where negative; nothing where it has none.
std::optional<int> axis_in(int64_t axis, int rank);

}  // namespace flow
