// Reference: what updates and the factors of gradients have in common.
#pragma once

#include <cmath>
#include <utility>

#include "runtime/cpu/kernels/update.h"

namespace flow::cpu::reference {

/// A Launch that leaves the variable and its slots as they are where the factor is NaN.
template <typename T, size_t kMoved>
Launch unless_skipped(const Request& request, Launch update) {
  return [update = std::move(update), n = request.outputs[0].shape.elements(),
          scale = GradientScale(request, kMoved)](const Buffers& buffers, const CallState& state) {
    if (!std::isnan(scale.template operator()<T>(buffers))) return update(buffers, state);
    for (size_t k = 0; k < kMoved; ++k)
      std::copy_n(input<T>(buffers, 1 + k), n, output<T>(buffers, k));
  };
}

/// The sum of squares of an operand.
template <typename T>
double squares(const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace flow::cpu::reference
