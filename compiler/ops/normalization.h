// What the normalising layers have in common.
#pragma once

#include "compiler/ops/op_def.h"

namespace flow {

inline AttributeDef epsilon_attribute(std::string_view fallback) {
  return {.name = "epsilon",
          .type = AttributeType::kNumber,
          .fallback = fallback,
          .doc = "added to the variance under the square root, for numerical stability",
          .min = 0};
}

inline AttributeDef center_attribute() {
  return {"center", AttributeType::kBool, "true", "learn an offset, beta"};
}

inline AttributeDef scale_attribute() {
  return {"scale", AttributeType::kBool, "true", "learn a scale, gamma"};
}

/// The factor `gamma` and the term `beta` of a layer: variables, or constants where the layer goes
/// without.
struct Affine {
  ir::ValueId gamma, beta;
};

/// Adds both, of that dtype and shape.
Affine add_affine(const LayerContext& context, DType dtype, const Shape& shape, bool scale,
                  bool center);

}  // namespace flow
