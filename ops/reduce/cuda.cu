// Reductions over any axes: sums and means, the largest, the smallest, products, any, all, and
// logsumexp.
#include "ops/arithmetic/binary.h"
#include "ops/reduce/cuda_grad.h"
#include "runtime/base/ceil_div.h"
#include "runtime/base/convert.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/reduce_tree.cuh"
#include "runtime/cuda/loops/reduction.h"

namespace flow::cuda {
namespace {

// Integers of any dtype are reduced as int64, which wraps around as they do.

struct IntegerSum {
  using Sum = int64_t;
  __device__ Sum first() const { return 0; }
  __device__ Sum term(int64_t x, int64_t) const { return x; }
  __device__ Sum join(Sum a, Sum b) const { return functions::Add<int64_t>{}(a, b); }
  __device__ int64_t last(Sum sum, int64_t) const { return sum; }
};

/// Of floats in double.
template <typename T>
struct Product {
  using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  __device__ Sum first() const { return 1; }
  __device__ Sum term(T x, int64_t) const { return static_cast<Sum>(x); }
  __device__ Sum join(Sum a, Sum b) const { return functions::Multiply<Sum>{}(a, b); }
  __device__ T last(Sum sum, int64_t) const { return static_cast<T>(sum); }
};

/// NaN where one is. Choose is Maximum or Minimum.
template <typename T, template <typename> class Choose>
struct Extreme {
  using Sum = T;
  Sum none;  // what all others are chosen before
  __device__ Sum first() const { return none; }
  __device__ Sum term(T x, int64_t) const { return x; }
  __device__ Sum join(Sum a, Sum b) const { return Choose<Sum>{}(a, b); }
  __device__ T last(Sum sum, int64_t) const { return sum; }
};

template <typename T>
Extreme<T, functions::Maximum> largest() {
  if constexpr (std::is_integral_v<T>)
    return {RangeOf<T>::kLeast};
  else
    return {-static_cast<T>(INFINITY)};
}

template <typename T>
Extreme<T, functions::Minimum> smallest() {
  if constexpr (std::is_integral_v<T>)
    return {RangeOf<T>::kMost};
  else
    return {static_cast<T>(INFINITY)};
}

/// Whether some are true, or, with `all`, whether none is false.
struct Truth {
  using Sum = int32_t;
  bool all;
  __device__ Sum first() const { return all ? 1 : 0; }
  __device__ Sum term(bool x, int64_t) const { return x ? 1 : 0; }
  __device__ Sum join(Sum a, Sum b) const { return all ? a & b : a | b; }
  __device__ bool last(Sum sum, int64_t) const { return sum != 0; }
};

/// ln(sum e^(x - max)) + max. No difference is taken from an infinite maximum, the result then.
template <typename T>
struct LogSumExp {
  using Sum = double;
  const T* max;
  __device__ T shift(int64_t output) const {
    const T m = max[output];
    return m - m == T{0} ? m : T{0};
  }
  __device__ Sum first() const { return 0; }
  __device__ Sum term(T x, int64_t output) const {
    return static_cast<double>(math::exp(x - shift(output)));
  }
  __device__ Sum join(Sum a, Sum b) const { return a + b; }
  __device__ T last(Sum sum, int64_t output) const {
    return static_cast<T>(std::log(sum) + static_cast<double>(shift(output)));
  }
};

ReducePlan plan_of(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  return {x, reduced_axes(request, x)};
}

template <typename Reducer, typename T>
Kernel reduce_kernel(const char* name, const Request& request, const Reducer& reducer, T) {
  const ReducePlan plan = plan_of(request);
  return {[=](const Buffers& buffers, const LaunchState& state) {
            launch_reduce(name, reducer, plan, input<T>(buffers, 0), output<T>(buffers, 0),
                          buffers.workspace, state);
          },
          plan.workspace(sizeof(typename Reducer::Sum))};
}

template <typename Reducer>
Kernel reduce_integers(const char* name, const Request& request, const Reducer& reducer) {
  const ReducePlan plan = plan_of(request);
  return {[=, dtype = request.inputs[0].dtype](const Buffers& buffers, const LaunchState& state) {
            launch_reduce(name, reducer, plan, Integers{buffers.inputs[0], dtype},
                          IntegerResults{buffers.outputs[0], dtype}, buffers.workspace, state);
          },
          plan.workspace(sizeof(typename Reducer::Sum))};
}

/// make(T) is the reducer of elements that are read as T.
template <typename Make>
Kernel reduce_numbers(const char* name, const Request& request, Make make) {
  const DType dtype = request.inputs[0].dtype;
  if (is_integer(dtype)) return reduce_integers(name, request, make(int64_t{}));
  return visit_float(dtype,
                     [&]<typename T>(T x) { return reduce_kernel(name, request, make(x), x); });
}

Reduction sums_of(const Request& request) {
  const TensorDesc& x = request.inputs[0];
  return {x, reduced_axes(request, x.shape)};
}

template <typename T>
Kernel logsumexp_kernel(const Request& request) {
  const ReducePlan plan = plan_of(request);
  const size_t parts = round_up(plan.workspace(sizeof(double)), 256);
  return {[=](const Buffers& buffers, const LaunchState& state) {
            const T* x = input<T>(buffers, 0);
            T* max = reinterpret_cast<T*>(buffers.workspace + parts);
            launch_reduce("largest", largest<T>(), plan, x, max, buffers.workspace, state);
            launch_reduce("logsumexp", LogSumExp<T>{max}, plan, x, output<T>(buffers, 0),
                          buffers.workspace, state);
          },
          parts + static_cast<size_t>(result_elements(request)) * sizeof(T)};
}

Kernel prepare_reduce_sum(const Request& request) {
  if (is_integer(request.inputs[0].dtype))
    return reduce_integers("reduce_sum", request, IntegerSum{});
  const Reduction sums = sums_of(request);
  return {sums.sum(1), sums.workspace()};
}

Kernel prepare_reduce_mean(const Request& request) {
  const Reduction sums = sums_of(request);
  return {sums.sum(1.0 / static_cast<double>(sums.terms())), sums.workspace()};
}

Kernel prepare_reduce_max(const Request& request) {
  return reduce_numbers("reduce_max", request, []<typename T>(T) { return largest<T>(); });
}

Kernel prepare_reduce_min(const Request& request) {
  return reduce_numbers("reduce_min", request, []<typename T>(T) { return smallest<T>(); });
}

Kernel prepare_reduce_prod(const Request& request) {
  return reduce_numbers("reduce_prod", request, []<typename T>(T) { return Product<T>{}; });
}

Kernel prepare_reduce_any(const Request& request) {
  return reduce_kernel("reduce_any", request, Truth{false}, bool{});
}

Kernel prepare_reduce_all(const Request& request) {
  return reduce_kernel("reduce_all", request, Truth{true}, bool{});
}

Kernel prepare_logsumexp(const Request& request) {
  return visit_float(request.inputs[0].dtype,
                     [&]<typename T>(T) { return logsumexp_kernel<T>(request); });
}

}  // namespace

std::span<const KernelEntry> kernels::reduce() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "reduce_sum",
       .prepare = prepare_reduce_sum,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kAxes},
      {.op = "reduce_mean",
       .prepare = prepare_reduce_mean,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kAxes},
      {"reduce_max", prepare_reduce_max},
      {"reduce_min", prepare_reduce_min},
      {"reduce_prod", prepare_reduce_prod, Order::kOwn},
      {"reduce_any", prepare_reduce_any},
      {"reduce_all", prepare_reduce_all},
      {"logsumexp", prepare_logsumexp, Order::kOwn},
      {"reduce_extreme_grad", prepare_reduce_extreme_grad},
      {"reduce_prod_grad", prepare_reduce_prod_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
