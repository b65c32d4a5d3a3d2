// What the layers that normalise have in common: gamma and beta, and enough values.
#pragma once

#include "compiler/ir/rules.h"

namespace flow {

/// The factor `gamma` and the term `beta` of a layer: variables, or constants where the layer goes
/// without.
struct Affine {
  ir::ValueId gamma, beta;
};

/// Adds gamma, of that dtype and shape.
ir::ValueId add_gamma(const LayerContext& context, DType dtype, const Shape& shape, bool scale);
/// Adds both, of that dtype and shape.
Affine add_affine(const LayerContext& context, DType dtype, const Shape& shape, bool scale,
                  bool center);

/// Reports a layer of a train job that takes each mean of `values` = 1 value: its result is beta,
/// whatever its operand is. `of`: what a mean is of, "channel".
bool has_values(const LayerContext& context, int64_t values, std::string_view of,
                std::string_view hint);

}  // namespace flow
