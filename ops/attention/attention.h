// Which operands a call of attention, or of its gradients, has.
#pragma once

#include <cstddef>
#include <optional>

#include "runtime/base/array.h"

namespace flow::ops {

/// Places of operands. Those of the gradients begin with dy, and have the forward op's results
/// behind the value.
struct AttentionOperands {
  size_t query = 0;  // the key and the value follow
  std::optional<size_t> mask = {}, bias = {}, lengths = {};

  /// Of a call with `count` operands, whose dtypes dtype_of(i) gives.
  template <typename F>
  static AttentionOperands find(bool gradients, size_t count, F dtype_of) {
    AttentionOperands found{gradients ? size_t{1} : size_t{0}};
    for (size_t i = gradients ? 6 : 3; i < count; ++i) {
      const DType dtype = dtype_of(i);
      (dtype == DType::kBool ? found.mask : is_float(dtype) ? found.bias : found.lengths) = i;
    }
    return found;
  }
};

}  // namespace flow::ops
