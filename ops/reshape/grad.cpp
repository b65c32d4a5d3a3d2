// Gradients and expansions of ops that only change shapes. They become reshapes, which cost
// nothing.
#include <algorithm>
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

using Integers = std::vector<int64_t>;

std::vector<ir::ValueId> reshape_gradient(GradientContext& context) {
  const Shape x = context.value_of(context.operand(0)).shape;
  return {context.reshape(0, context.gradient(), x.extents())};
}

ir::ValueId expand_flatten(LayerContext& context) {
  const Shape x = context.operand(0).shape;
  const int64_t given = context.attributes.get<int64_t>("start");
  const auto start = ops::axis_in(given, x.rank());
  if (!start) {
    context.site().bad_attribute("start", Diagnosis::kBadAttribute,
                                 fmt::format("{} has no axis {} to flatten from", x.str(), given));
    return {};
  }
  Integers shape(x.begin(), x.begin() + *start);
  shape.push_back(x.elements(*start, x.rank()));
  return context.reshape("", context.operands[0], std::move(shape));
}

ir::ValueId reshaped(const LayerContext& context, Integers shape) {
  return context.reshape("", context.operands[0], std::move(shape));
}

ir::ValueId expand_identity(LayerContext& context) {
  return reshaped(context, context.operand(0).shape.extents());
}

/// Returns the attribute `axis` as sorted axes of a shape of this rank, or nothing after an error.
std::optional<Integers> axes_in(const LayerContext& context, int rank) {
  Integers axes;
  const auto bad = [&](const std::string& message) -> std::optional<Integers> {
    context.site().bad_attribute("axis", Diagnosis::kBadAttribute, message);
    return {};
  };
  for (const int64_t given : context.attributes.get<Integers>("axis")) {
    const auto axis = ops::axis_in(given, rank);
    if (!axis && rank == 0) return bad(fmt::format("a scalar has no axis {}", given));
    if (!axis)
      return bad(fmt::format("axis {} is out of range; expected {} to {}", given, -rank, rank - 1));
    axes.push_back(*axis);
  }
  std::ranges::sort(axes);
  if (const auto twice = std::ranges::adjacent_find(axes); twice != axes.end())
    return bad(fmt::format("duplicate axis {}", *twice));
  return axes;
}

ir::ValueId expand_squeeze(LayerContext& context) {
  const Shape x = context.operand(0).shape;
  const auto axes = axes_in(context, x.rank());
  if (!axes) return {};
  Integers left;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool named = std::ranges::find(*axes, int64_t{axis}) != axes->end();
    if (named && x[axis] != 1) {
      context.site().bad_attribute(
          "axis", Diagnosis::kShapeMismatch,
          fmt::format("axis {} of {} has size {}; only axes of size 1 can be removed", axis,
                      x.str(), x[axis]));
      return {};
    }
    if (!named && (!axes->empty() || x[axis] != 1)) left.push_back(x[axis]);
  }
  return reshaped(context, std::move(left));
}

ir::ValueId expand_expand_dims(LayerContext& context) {
  const Shape x = context.operand(0).shape;
  const auto count = static_cast<int>(context.attributes.get<Integers>("axis").size());
  const auto axes = axes_in(context, x.rank() + count);
  if (!axes) return {};
  Integers extents = x.extents();
  for (const int64_t axis : *axes) extents.insert(extents.begin() + axis, 1);
  return reshaped(context, std::move(extents));
}

}  // namespace

std::vector<Rules> reshape() {
  return {{"flatten", nullptr, expand_flatten},
          {"reshape", reshape_gradient},
          {"squeeze", nullptr, expand_squeeze},
          {"expand_dims", nullptr, expand_expand_dims},
          {"identity", nullptr, expand_identity}};
}

}  // namespace flow::grad
