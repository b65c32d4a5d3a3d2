// Implements the gradients of operands that were broadcast, and the shared parts of layer
// expansions.
#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "compiler/grad/shared_parts.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/rules.h"
#include "runtime/base/array.h"
#include "runtime/base/text.h"

namespace flow {
namespace {

/// Adds the variable `name` with the initial value `value`, or a constant of that value if `wanted`
/// is false.
ir::ValueId add_part(const LayerContext& context, std::string_view name, bool wanted, double value,
                     DType dtype, const Shape& shape) {
  if (!wanted) return context.fill(value == 1 ? "ones" : "zeros", value, shape, dtype);
  plan::Initializer initializer = plan::initializers::Zeros{};
  if (value == 1) initializer = plan::initializers::Ones{};
  return context.add_variable(name, std::move(initializer), dtype, shape);
}

}  // namespace

ir::ValueId sum_to_operand(GradientContext& context, size_t i, ir::ValueId gradient) {
  const Shape target = context.value_of(context.operand(i)).shape;
  if (!gradient.valid() || context.value_of(gradient).shape == target) return gradient;
  const Shape full = context.value_of(gradient).shape;
  const int added = full.rank() - target.rank();
  std::vector<int64_t> axes;
  bool one_left = false;  // a summed axis of extent 1 remains in the operand
  for (int axis = 0; axis < full.rank(); ++axis) {
    const bool copied = axis < added || (target[axis - added] == 1 && full[axis] != 1);
    if (copied) axes.push_back(axis);
    if (copied && axis >= added) one_left = true;
  }
  if (!one_left)
    return context.add("reduce_sum", i, {gradient}, {{"axis", axes}, {"keepdims", false}});
  const ir::ValueId sum =
      context.add("reduce_sum", i, {gradient}, {{"axis", axes}, {"keepdims", true}}, "reduce_sum");
  if (added == 0) return sum;
  return context.reshape(i, sum, target.extents());
}

ir::ValueId summed(GradientContext& context, size_t i, std::string_view op,
                   std::vector<ir::ValueId> operands) {
  const bool copied =
      context.value_of(context.operand(i)).shape != context.value_of(context.gradient()).shape;
  return sum_to_operand(context, i, context.add(op, i, std::move(operands), {}, copied ? op : ""));
}

ir::ValueId chosen_gradient(GradientContext& context, size_t i, ir::ValueId condition, bool when) {
  const ir::ValueId dy = context.gradient();
  const ir::ValueId zero =
      context.add("fill", i, {}, {{"value", 0.0}, {"dtype", context.value_of(dy).dtype}}, "zero");
  return summed(context, i, "where",
                when ? std::vector{condition, dy, zero} : std::vector{condition, zero, dy});
}

ir::ValueId add_gamma(const LayerContext& context, DType dtype, const Shape& shape, bool scale) {
  return add_part(context, "gamma", scale, 1, dtype, shape);
}

Affine add_affine(const LayerContext& context, DType dtype, const Shape& shape, bool scale,
                  bool center) {
  const ir::ValueId gamma = add_gamma(context, dtype, shape, scale);
  return {gamma, add_part(context, "beta", center, 0, dtype, shape)};
}

bool has_values(const LayerContext& context, int64_t values, std::string_view of,
                std::string_view hint) {
  if (!context.train || values > 1) return true;
  context.site()
      .bad_operand(0, Diagnosis::kShapeMismatch,
                   fmt::format("each {} has one value, so the result is constant; expected at "
                               "least 2 values in training",
                               of))
      .with_hint(std::string(hint));
  return false;
}

ir::ValueId with_height(const LayerContext& context, std::string_view part, ir::ValueId x) {
  if (!x.valid()) return {};
  std::vector<int64_t> shape = context.builder.graph()[x].shape.extents();
  shape.insert(shape.end() - 1, 1);
  return context.reshape(part, x, std::move(shape));
}

ir::ValueId without_height(const LayerContext& context, std::string_view part, ir::ValueId y) {
  if (!y.valid()) return {};
  std::vector<int64_t> shape = context.builder.graph()[y].shape.extents();
  shape.erase(shape.end() - 2);
  return context.reshape(part, y, std::move(shape));
}

}  // namespace flow

namespace flow::grad {

bool is_held(const LayerContext& context, std::string_view attribute, double value) {
  const auto dtype = context.attributes.get<DType>("dtype");
  const bool exact = is_float(dtype) || std::abs(value) <= kLastExact;
  if (std::isfinite(value) && can_hold(dtype, value) && exact) return true;
  context.site().bad_attribute(attribute, Diagnosis::kBadAttribute,
                               fmt::format("cannot store {} {}as {}", shortest(value),
                                           exact ? "" : "exactly ", name_of(dtype)));
  return false;
}

bool is_held_or_infinite(const LayerContext& context, std::string_view attribute, double value) {
  const bool is_number = std::isfinite(value) || !is_float(context.attributes.get<DType>("dtype"));
  return !is_number || is_held(context, attribute, value);
}

}  // namespace flow::grad
