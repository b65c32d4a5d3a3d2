// The sizes and attributes that the kernels of layer_normalize, rms_normalize and their gradients
// share.
#pragma once

#include "ops/core/attributes.h"

namespace flow {

/// Operand 0 as (rows, features). The features start at the attribute `axis`.
struct FeatureRows {
  int64_t rows, features;
  double epsilon;  // 0 if the step has no such attribute, because it receives the rows' 1 / rms

  FeatureRows(const ops::Attributes& attributes, const Shape& x) {
    const auto axis = static_cast<int>(attributes.get<int64_t>("axis"));
    rows = x.elements(0, axis);
    features = x.elements(axis, x.rank());
    epsilon = attributes.has("epsilon") ? attributes.get<double>("epsilon") : 0;
  }
};

}  // namespace flow
