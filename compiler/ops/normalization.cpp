// gamma and beta, and what the shape rules of normalising primitives check alike.
#include "compiler/ops/normalization.h"

#include <fmt/format.h>

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

bool have_shape(Inference& inference, size_t first, size_t end, const Shape& expected) {
  for (size_t i = first; i < end; ++i) {
    if (inference.shape(i) == expected) continue;
    inference.bad_operand(i, Diagnosis::kShapeMismatch,
                          fmt::format("{} must be {}", inference.shape(i).str(), expected.str()));
    return false;
  }
  return true;
}

}  // namespace flow
