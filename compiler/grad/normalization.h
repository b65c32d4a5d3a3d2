// gamma and beta of the layers that normalise.
#pragma once

#include "compiler/grad/rules.h"

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

}  // namespace flow
