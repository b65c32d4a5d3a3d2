// Reductions over any axes: sums and means, the largest, the smallest, products, any, all, and
// logsumexp; and the gradients of those that look at the elements again: of the largest and the
// smallest, and of products.
#include <cmath>
#include <limits>

#include "ops/binary/binary.h"
#include "ops/softmax/cpu_row.h"
#include "runtime/base/host_device.h"
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

/// Integers wrap around.
template <typename T>
struct IntegerSum {
  using Sum = uint64_t;
  Sum first() const { return 0; }
  Sum term(T x, int64_t) const { return static_cast<Sum>(x); }
  Sum join(Sum a, Sum b) const { return a + b; }
  T last(Sum sum, int64_t) const { return static_cast<T>(sum); }
};

/// Of floats in double; integers wrap around.
template <typename T>
struct ProductReducer {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  Sum first() const { return 1; }
  Sum term(T x, int64_t) const { return static_cast<Sum>(x); }
  Sum join(Sum a, Sum b) const { return a * b; }
  T last(Sum sum, int64_t) const { return static_cast<T>(sum); }
};

/// NaN where one is. Choose is Maximum or Minimum.
template <typename T, template <typename> class Choose, bool kLargest>
struct Extreme {
  using Sum = T;
  using Limits = std::numeric_limits<T>;
  static constexpr T kMost = Limits::has_infinity ? Limits::infinity() : Limits::max();
  static constexpr T kLeast = Limits::has_infinity ? -Limits::infinity() : Limits::min();
  Sum first() const { return kLargest ? kLeast : kMost; }
  Sum term(T x, int64_t) const { return x; }
  Sum join(Sum a, Sum b) const { return Choose<T>{}(a, b); }
  T last(Sum sum, int64_t) const { return sum; }
};

template <typename T>
using Largest = Extreme<T, functions::Maximum, true>;
template <typename T>
using Smallest = Extreme<T, functions::Minimum, false>;

struct Any {
  using Sum = bool;
  Sum first() const { return false; }
  Sum term(bool x, int64_t) const { return x; }
  Sum join(Sum a, Sum b) const { return a | b; }
  bool last(Sum sum, int64_t) const { return sum; }
};

struct All {
  using Sum = bool;
  Sum first() const { return true; }
  Sum term(bool x, int64_t) const { return x; }
  Sum join(Sum a, Sum b) const { return a & b; }
  bool last(Sum sum, int64_t) const { return sum; }
};

/// ln(sum e^(x - max)) + max, where the results already hold the maxima.
struct LogSumExp {
  using Sum = double;
  const float* max;

  /// No difference is taken from an infinite maximum, which is the result.
  float shift(int64_t result) const { return std::isfinite(max[result]) ? max[result] : 0; }
  Sum first() const { return 0; }
  Sum term(float x, int64_t result) const {
    return static_cast<double>(math::exp(x - shift(result)));
  }
  Sum join(Sum a, Sum b) const { return a + b; }
  float last(Sum sum, int64_t result) const {
    return static_cast<float>(std::log(sum) + static_cast<double>(shift(result)));
  }
};

template <typename T, typename Reducer>
Kernel reduce_kernel(const Request& request, Reducer reducer) {
  const ReducedAxes axes(request);
  Kernel kernel;
  kernel.workspace = reduce_workspace<Reducer>(axes);
  kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
    reduce_axes(reducer, axes, threads, input<T>(buffers, 0), output<T>(buffers, 0),
                buffers.workspace);
  };
  return kernel;
}

template <template <typename> class Reducer>
Kernel reduce_numbers(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::kFloat32) return reduce_kernel<float>(request, Reducer<float>{});
  return visit_integer(dtype,
                       [&]<typename T>(T) { return reduce_kernel<T>(request, Reducer<T>{}); });
}

Kernel prepare_reduce_sum(const Request& request) {
  if (is_integer(request.inputs[0].dtype)) return reduce_numbers<IntegerSum>(request);
  return float_sum(request, false);
}

Kernel prepare_reduce_mean(const Request& request) { return float_sum(request, true); }

Kernel prepare_reduce_any(const Request& request) { return reduce_kernel<bool>(request, Any{}); }

Kernel prepare_reduce_all(const Request& request) { return reduce_kernel<bool>(request, All{}); }

Kernel prepare_logsumexp(const Request& request) {
  const ReducedAxes axes(request);
  if (axes.of_rows()) {
    Kernel kernel;
    kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
      const float* x = input<float>(buffers, 0);
      float* out = output<float>(buffers, 0);
      axes.for_row_pieces(threads, [&](int64_t first, int64_t end) {
        for (int64_t row = first; row < end; ++row)
          out[row] = logsumexp_row(x + row * axes.run, axes.run);
      });
    };
    return kernel;
  }
  const size_t sums = reduce_workspace<LogSumExp>(axes),
               maxima = reduce_workspace<Largest<float>>(axes);
  Kernel kernel;
  kernel.workspace = std::max(sums, maxima) + static_cast<size_t>(axes.results()) * sizeof(float);
  kernel.launch = [=, threads = request.threads, at = std::max(sums, maxima)](
                      const Buffers& buffers, const CallState&) {
    const float* x = input<float>(buffers, 0);
    float* max = reinterpret_cast<float*>(buffers.workspace + at);
    reduce_axes(Largest<float>{}, axes, threads, x, max, buffers.workspace);
    reduce_axes(LogSumExp{max}, axes, threads, x, output<float>(buffers, 0), buffers.workspace);
  };
  return kernel;
}

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

Kernel prepare_reduce_extreme_grad(const Request& request) {
  return gradient_kernel<FirstEqual>(request);
}

Kernel prepare_reduce_prod_grad(const Request& request) {
  return gradient_kernel<OtherFactors>(request);
}

}  // namespace

std::span<const KernelEntry> reduce() {
  static constexpr KernelEntry kKernels[] = {
      {"reduce_sum", prepare_reduce_sum},
      {"reduce_mean", prepare_reduce_mean},
      {"reduce_max", reduce_numbers<Largest>},
      {"reduce_min", reduce_numbers<Smallest>},
      {"reduce_prod", reduce_numbers<ProductReducer>},
      {"reduce_any", prepare_reduce_any},
      {"reduce_all", prepare_reduce_all},
      {"logsumexp", prepare_logsumexp},
      {"reduce_extreme_grad", prepare_reduce_extreme_grad},
      {"reduce_prod_grad", prepare_reduce_prod_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
