// What expansions of several layers use: channels, activations, windows over lengths, numbers that
// become elements, and gamma and beta.
#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "compiler/grad/layers.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/rules.h"
#include "runtime/base/array.h"
#include "runtime/base/text.h"

namespace flow {
namespace {

ir::ValueId add_constant(const LayerContext& context, std::string_view part, double value,
                         DType dtype, const Shape& shape) {
  return context.add("fill", part, {},
                     {{"value", value}, {"shape", shape.extents()}, {"dtype", dtype}});
}

/// The variable `name`, or where it is not wanted, a constant. Either starts at `value`.
ir::ValueId add_part(const LayerContext& context, std::string_view name, bool wanted, double value,
                     DType dtype, const Shape& shape) {
  if (!wanted) return add_constant(context, value == 1 ? "ones" : "zeros", value, dtype, shape);
  plan::Initializer initializer = plan::initializers::Zeros{};
  if (value == 1) initializer = plan::initializers::Ones{};
  return context.add_variable(name, std::move(initializer), dtype, shape);
}

}  // namespace

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
  return context.add("reshape", part, {x}, {{"shape", std::move(shape)}});
}

ir::ValueId without_height(const LayerContext& context, std::string_view part, ir::ValueId y) {
  if (!y.valid()) return {};
  std::vector<int64_t> shape = context.builder.graph()[y].shape.extents();
  shape.erase(shape.end() - 2);
  return context.add("reshape", part, {y}, {{"shape", std::move(shape)}});
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
