// Kernels of reductions over any axes: sums, means, maxima, minima, products, any, all and
// logsumexp; and of those gradients that read the elements again: of maxima, minima and products.
#include <algorithm>

#include "ops/reduce/problem.h"
#include "ops/softmax/cpu_row.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/reduction.h"

namespace flow::cpu::fast {
namespace {

Kernel float_sum(const Request& request, bool mean) {
  const Reduction reduction{ReducedAxes(request)};
  const double factor = mean ? 1.0 / static_cast<double>(reduction.reduced_elements()) : 1.0;
  Kernel kernel;
  kernel.workspace = reduction.workspace();
  kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
    reduction.sum(threads, input<float>(buffers, 0), factor, output<float>(buffers, 0),
                  buffers.workspace);
  };
  return kernel;
}

template <typename T, typename Reducer>
Kernel reduce_kernel(const Request& request) {
  const ReducedAxes axes(request);
  return {[=, threads = request.threads](const Buffers& buffers, const CallState&) {
            reduce_axes(Reducer{}, axes, threads, input<T>(buffers, 0), output<T>(buffers, 0),
                        buffers.workspace);
          },
          reduce_workspace<Reducer>(axes)};
}

template <template <typename> class Reducer>
Kernel reduce_numbers(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::kFloat32) return reduce_kernel<float, Reducer<float>>(request);
  return visit_integer(dtype, [&]<typename T>(T) { return reduce_kernel<T, Reducer<T>>(request); });
}

Kernel prepare_reduce_sum(const Request& request) {
  if (is_integer(request.inputs[0].dtype)) return reduce_numbers<ops::IntegerSum>(request);
  return float_sum(request, false);
}

Kernel prepare_reduce_mean(const Request& request) { return float_sum(request, true); }

Kernel prepare_logsumexp(const Request& request) {
  const ReducedAxes axes(request);
  if (axes.of_rows())
    return by_rows(request, axes.outer, 2 * axes.run,
                   [n = axes.run](const Piece& piece, int64_t row) {
                     output<float>(piece.buffers, 0)[row] =
                         logsumexp_row(input<float>(piece.buffers, 0) + row * n, n);
                   });
  using Largest = ops::Largest<float>;
  using LogSumExp = ops::LogSumExp<float>;
  const size_t parts = std::max(reduce_workspace<LogSumExp>(axes), reduce_workspace<Largest>(axes));
  return {[=, threads = request.threads](const Buffers& buffers, const CallState&) {
            const float* x = input<float>(buffers, 0);
            float* max = reinterpret_cast<float*>(buffers.workspace + parts);
            reduce_axes(Largest{}, axes, threads, x, max, buffers.workspace);
            reduce_axes(LogSumExp{max}, axes, threads, x, output<float>(buffers, 0),
                        buffers.workspace);
          },
          parts + static_cast<size_t>(axes.results()) * sizeof(float)};
}

constexpr int64_t kTogether = 256;  // columns that are processed together

// The gradient of one result, or of some adjacent results in one pass over the rows. begin() resets
// the state, look(x, k) receives the elements in order, and give(dy, x, k) returns dx.

/// dx = dy at the first element that equals the result or is NaN, and 0 elsewhere.
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

/// dx = dy times the product of the other elements. This is exact if there are zeros: if one
/// element is 0, only its gradient is not 0; if several are, all gradients are 0.
struct OtherFactors {
  static constexpr bool kLooks = true;
  double product[kTogether];  // the product of the elements that are not 0
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

/// Calls f(offset, k) in order for all elements of columns [column, column + count) of an outer
/// loop.
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

/// Computes dx from dy, x and y. y and dy have one number for each result.
template <typename Gradient>
Kernel reduce_gradient(const Request& request) {
  const ReducedAxes axes(request, 1);
  const int64_t pieces = ceil_div(axes.columns, kTogether);
  return in_pieces(request, axes.outer * pieces, 1, [=](const Piece& piece) {
    const Buffers& buffers = piece.buffers;
    const int64_t outer = piece.first / pieces, column = piece.first % pieces * kTogether;
    const int64_t count = std::min(kTogether, axes.columns - column);
    const int64_t result = outer * axes.columns + column, at = axes.kept_offset(outer);
    const float *dy = input<float>(buffers, 0) + result, *from = input<float>(buffers, 1) + at;
    float* dx = output<float>(buffers, 0) + at;
    Gradient gradient;
    gradient.begin(result, count, buffers.inputs.size() > 2 ? input<float>(buffers, 2) : nullptr);
    if constexpr (Gradient::kLooks)
      for_elements(axes, column, count, [&](int64_t i, int64_t k) { gradient.look(from[i], k); });
    for_elements(axes, column, count,
                 [&](int64_t i, int64_t k) { dx[i] = gradient.give(dy[k], from[i], k); });
  });
}

}  // namespace

std::span<const KernelEntry> reduce() {
  static constexpr KernelEntry kKernels[] = {
      {"reduce_sum", prepare_reduce_sum},
      {"reduce_mean", prepare_reduce_mean},
      {"reduce_max", reduce_numbers<ops::Largest>},
      {"reduce_min", reduce_numbers<ops::Smallest>},
      {"reduce_prod", reduce_numbers<ops::Product>},
      {"reduce_any", reduce_kernel<bool, ops::Truth<false, bool>>},
      {"reduce_all", reduce_kernel<bool, ops::Truth<true, bool>>},
      {"logsumexp", prepare_logsumexp},
      {"reduce_extreme_grad", reduce_gradient<FirstEqual>},
      {"reduce_prod_grad", reduce_gradient<OtherFactors>},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
