// gamma and beta of the layers that normalise.
#include "compiler/grad/normalization.h"
#include "compiler/grad/rules.h"

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

}  // namespace flow
