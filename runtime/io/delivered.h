// Values in the dtype in which they leave a run.
#pragma once

#include "runtime/io/elements.h"

namespace flow::io {

/// bfloat16, which .npy does not have, becomes float32; everything else stays as it is.
class Delivered {
 public:
  /// Of values of this dtype and at most this shape.
  Delivered(DType dtype, const Shape& shape) {
    if (dtype == DType::kBFloat16) wide_ = Array(DType::kFloat32, shape);
  }

  static DType dtype_of(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

  /// Valid until the next call.
  ArrayView operator()(const ArrayView& value) {
    if (value.dtype != DType::kBFloat16) return value;
    visit_elements(value, [&](auto elements) {
      FLOW_CHECK(elements.size() * sizeof(float) <= wide_.bytes().size());
      auto* out = wide_.as<float>().data();
      for (size_t i = 0; i < elements.size(); ++i) out[i] = static_cast<float>(elements[i]);
    });
    return {DType::kFloat32, value.shape, wide_.bytes().data()};
  }

 private:
  Array wide_;
};

}  // namespace flow::io
