// Reductions over any axes: sums and means, the largest, the smallest, products, any, all, and
// logsumexp.
#include <cmath>
#include <limits>

#include "ops/arithmetic/binary.h"
#include "ops/reduce/cpu_grad.h"
#include "ops/softmax/cpu_row.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/reduced_axes.h"
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
