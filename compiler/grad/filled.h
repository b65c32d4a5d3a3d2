// Constants in gradients.
#pragma once

#include <string_view>

#include "compiler/ir/rules.h"

namespace flow {

/// A tensor of equal elements on the way to the gradient of operand i.
inline ir::ValueId filled(GradientContext& context, size_t i, double value, const Shape& shape,
                          DType dtype, std::string_view part = {}) {
  return context.add("fill", i, {},
                     {{"value", value}, {"shape", shape.extents()}, {"dtype", dtype}}, part);
}

/// Zeros like `of`.
inline ir::ValueId zeros_like(GradientContext& context, size_t i, const ir::Value& of,
                              std::string_view part = {}) {
  return filled(context, i, 0, of.shape, of.dtype, part);
}

}  // namespace flow
