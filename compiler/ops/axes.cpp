// Axes as the file gives them: negative ones count from the end.
#include "compiler/ops/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace flow {

std::optional<int> axis_in(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return {};
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::optional<int> axis_in_range(CallSite& site, int64_t axis, const Shape& shape) {
  const int rank = shape.rank();
  if (const auto found = axis_in(axis, rank)) return found;
  const std::string range = rank == 0 ? std::string("a scalar has no axes")
                                      : fmt::format("expected {} to {}", -rank, rank - 1);
  site.bad_attribute("axis", Diagnosis::kBadAttribute,
                     fmt::format("{} has no axis {}; {}", shape.str(), axis, range));
  return {};
}

std::optional<int> normalise_axis(Inference& inference, size_t i) {
  const auto axis =
      axis_in_range(inference, inference.attribute<int64_t>("axis"), inference.shape(i));
  if (axis) inference.normalise("axis", int64_t{*axis});
  return axis;
}

std::optional<std::vector<int64_t>> normalise_axes(Inference& inference, size_t i) {
  const Shape& shape = inference.shape(i);
  if (!inference.has("axis")) return inference.attribute<std::vector<int64_t>>("axes");
  std::vector<int64_t> axes;
  for (const int64_t given : inference.attribute<std::vector<int64_t>>("axis")) {
    const auto axis = axis_in_range(inference, given, shape);
    if (!axis) return {};
    axes.push_back(*axis);
  }
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(shape.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::ranges::sort(axes);
  if (const auto twice = std::ranges::adjacent_find(axes); twice != axes.end()) {
    inference.bad_attribute("axis", Diagnosis::kBadAttribute,
                            fmt::format("duplicate axis {}", *twice));
    return {};
  }
  inference.replace("axis", "axes", axes);
  return axes;
}

int reshaped_rows(const Shape& from, int rows, const Shape& to, int64_t batch) {
  if (rows < 0) return rows;
  if (batch <= 0 || from[rows] % batch != 0) batch = from[rows];
  const int64_t before = from.elements(0, rows);
  const int64_t inside = from.elements(rows, from.rank());
  for (int axis = 0; axis < to.rank(); ++axis)
    if (to.elements(0, axis) == before && to.elements(axis, to.rank()) == inside &&
        to[axis] % batch == 0)
      return axis;
  return ir::kMixedRows;
}

int common_rows(int a, int b) {
  if (a == ir::kNoRows || a == b) return b;
  return b == ir::kNoRows ? a : ir::kMixedRows;
}

int rows_before(int rows, int axis) { return rows >= axis ? ir::kMixedRows : rows; }

int rows_beside(int rows, int axis) { return rows == axis ? ir::kMixedRows : rows; }

int rows_along(int rows, int axis) {
  return rows == ir::kNoRows || rows == axis ? rows : ir::kMixedRows;
}

int rows_of_vector(int rows, int axis) {
  const int along = rows_along(rows, axis);
  return along < 0 ? along : 0;
}

bool have_shape(Inference& inference, size_t first, size_t end, const Shape& expected) {
  for (size_t i = first; i < end; ++i) {
    if (inference.shape(i) == expected) continue;
    inference.bad_operand(
        i, Diagnosis::kShapeMismatch,
        fmt::format("found {}; expected {}", inference.shape(i).str(), expected.str()));
    return false;
  }
  return true;
}

}  // namespace flow
