// What the layers that normalise have in common: gamma and beta, and enough values.
#include "compiler/grad/normalization.h"

#include <fmt/format.h>

#include "compiler/ir/rules.h"

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

}  // namespace flow
