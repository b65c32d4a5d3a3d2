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

}  // namespace

Affine add_affine(const LayerContext& context, DType dtype, const Shape& shape, bool scale,
                  bool center) {
  const auto part = [&](std::string_view name, bool wanted, std::string_view constant,
                        double value) {
    if (!wanted) return add_constant(context, constant, value, dtype, shape);
    return context.add_variable(name, {value == 1 ? "ones" : "zeros", {}, {}}, dtype, shape,
                                context.trainable);
  };
  return {part("gamma", scale, "ones", 1), part("beta", center, "zeros", 0)};
}

}  // namespace flow
