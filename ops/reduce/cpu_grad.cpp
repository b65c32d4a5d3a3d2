// Gradients of reductions that look at the elements again: of the largest and the smallest, and of
// products.
#include "ops/reduce/cpu_grad.h"

#include "runtime/base/ceil_div.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/reduced_axes.h"

namespace flow::cpu::fast {
namespace {

constexpr int64_t kTogether = 256;  // columns that are gone through at once

// One result's part in a gradient, or some adjacent ones' in a pass over the rows: begin() clears
// what is carried along, look(x, k) is told the elements in order, give(dy, x, k) makes dx.

/// dx = dy where the first element equal to the result is, or the first NaN.
struct FirstEqual {
  static constexpr bool kLooks = false;
  const float* y;
  bool found[kTogether];

  void begin(int64_t result, int64_t count, const float* results) {
    y = results + result;
    std::fill_n(found, count, false);
  }
  void look(float, int64_t) {}
  float give(float dy, float x, int64_t k) {
    const bool hit = !found[k] && (x == y[k] || x != x);
    found[k] |= hit;
    return hit ? dy : 0.0f;
  }
};

/// dx = dy times the product of the other elements, exact with zeros: of one zero only its own
/// gradient is not 0, of more none.
struct OtherFactors {
  static constexpr bool kLooks = true;
  double product[kTogether];  // of the elements that are not 0
  int32_t zeros[kTogether];

  void begin(int64_t, int64_t count, const float*) {
    std::fill_n(product, count, 1.0);
    std::fill_n(zeros, count, 0);
  }
  void look(float x, int64_t k) {
    zeros[k] += x == 0 ? 1 : 0;
    product[k] *= x == 0 ? 1.0 : static_cast<double>(x);
  }
  float give(float dy, float x, int64_t k) {
    const int32_t others = zeros[k] - (x == 0 ? 1 : 0);
    if (others > 0) return 0.0f;
    const double divisor = x == 0 ? 1.0 : static_cast<double>(x);
    return static_cast<float>(static_cast<double>(dy) * (product[k] / divisor));
  }
};

/// All elements of columns [column, column + count) of an outer loop, in order: f(offset, k).
template <typename F>
void for_elements(const ReducedAxes& axes, int64_t column, int64_t count, F f) {
  const int64_t n = axes.reduced_elements();
  if (axes.run > 1)
    return axes.for_runs(0, n, [&](int64_t offset, int64_t adjacent) {
      for (int64_t i = 0; i < adjacent; ++i) f(offset + i, 0);
    });
  axes.for_rows(0, n, [&](int64_t offset, int64_t rows, int64_t stride) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < count; ++k) f(offset + row * stride + column + k, k);
  });
}

/// dx from dy, x and y. y and dy have a number for each result.
template <typename Gradient>
Kernel gradient_kernel(const Request& request) {
  Kernel kernel;
  kernel.launch = [axes = ReducedAxes(request, 1), threads = request.threads](
                      const Buffers& buffers, const CallState&) {
    const float* dys = input<float>(buffers, 0);
    const int64_t pieces = ceil_div(axes.columns, kTogether);
    parallel_for(threads, axes.outer * pieces, [&](int64_t task, int) {
      const int64_t outer = task / pieces, column = task % pieces * kTogether;
      const int64_t count = std::min(kTogether, axes.columns - column);
      const int64_t result = outer * axes.columns + column, at = axes.kept_offset(outer);
      const float *from = input<float>(buffers, 1) + at, *dy = dys + result;
      float* dx = output<float>(buffers, 0) + at;
      Gradient gradient;
      gradient.begin(result, count, buffers.inputs.size() > 2 ? input<float>(buffers, 2) : nullptr);
      if constexpr (Gradient::kLooks)
        for_elements(axes, column, count, [&](int64_t i, int64_t k) { gradient.look(from[i], k); });
      for_elements(axes, column, count,
                   [&](int64_t i, int64_t k) { dx[i] = gradient.give(dy[k], from[i], k); });
    });
  };
  return kernel;
}

}  // namespace

Kernel prepare_reduce_extreme_grad(const Request& request) {
  return gradient_kernel<FirstEqual>(request);
}

Kernel prepare_reduce_prod_grad(const Request& request) {
  return gradient_kernel<OtherFactors>(request);
}

}  // namespace flow::cpu::fast
