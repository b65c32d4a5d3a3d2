// Reductions over any axes: sums and means, the largest, the smallest, products, any, all, and
// logsumexp; and the gradients of those that look at the elements again: of the largest and the
// smallest, and of products. A thread for each result, or a block where there are few results of
// many elements.
#include <algorithm>

#include "ops/binary/binary.h"
#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/reduce_tree.cuh"
#include "runtime/cuda/loops/reduction.h"
#include "runtime/cuda/loops/team.cuh"

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

/// The results, or the elements of a result, that a thread looks at: first, first + step, ...
struct Stride {
  int64_t first, step;
};

template <bool kByBlock>
__device__ Stride own_results() {
  return kByBlock ? Stride{blockIdx.x, gridDim.x} : Stride{first_index(), index_step()};
}

template <bool kByBlock>
__device__ Stride own_elements() {
  return kByBlock ? Stride{threadIdx.x, blockDim.x} : Stride{0, 1};
}

/// op over the values of those that share a result.
template <bool kByBlock, typename T, typename Op>
__device__ T over_sharers(T value, Op op) {
  if constexpr (kByBlock) value = over_block(value, op);
  return value;
}

struct ProductOfTwo {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a * b;
  }
};

/// dx = dy where the first element equal to the result is, or the first NaN.
template <bool kByBlock, typename T>
__global__ void extreme_grad(ReduceLayout layout, const T* dy, const T* x, const T* y, T* dx) {
  const auto results = own_results<kByBlock>(), elements = own_elements<kByBlock>();
  for (int64_t output = results.first; output < layout.outputs; output += results.step) {
    const int64_t at = layout.kept.at(output).of[0];
    int64_t hit = layout.terms;
    for (int64_t i = elements.first; i < hit; i += elements.step) {
      const T value = x[at + layout.reduced.at(i).of[0]];
      if (value == y[output] || value != value) hit = i;
    }
    hit = over_sharers<kByBlock>(hit, Smaller());
    for (int64_t i = elements.first; i < layout.terms; i += elements.step)
      dx[at + layout.reduced.at(i).of[0]] = i == hit ? dy[output] : T{0};
  }
}

/// dx = dy times the product of the other elements, exact with zeros: of one zero only its own
/// gradient is not 0, of more none.
template <bool kByBlock, typename T>
__global__ void prod_grad(ReduceLayout layout, const T* dy, const T* x, T* dx) {
  const auto results = own_results<kByBlock>(), elements = own_elements<kByBlock>();
  for (int64_t output = results.first; output < layout.outputs; output += results.step) {
    const int64_t at = layout.kept.at(output).of[0];
    double product = 1;
    int64_t zeros = 0;
    for (int64_t i = elements.first; i < layout.terms; i += elements.step) {
      const T value = x[at + layout.reduced.at(i).of[0]];
      zeros += value == 0 ? 1 : 0;
      product *= value == 0 ? 1.0 : static_cast<double>(value);
    }
    product = over_sharers<kByBlock>(product, ProductOfTwo());
    zeros = over_sharers<kByBlock>(zeros, Sum());
    for (int64_t i = elements.first; i < layout.terms; i += elements.step) {
      const int64_t k = at + layout.reduced.at(i).of[0];
      const bool zero = x[k] == 0;
      const double others = product / (zero ? 1.0 : static_cast<double>(x[k]));
      const bool none = zeros > (zero ? 1 : 0);
      dx[k] = none ? T{0} : static_cast<T>(static_cast<double>(dy[output]) * others);
    }
  }
}

ReducePlan plan_of_gradient(const Request& request) {
  const Shape& x = request.inputs[1].shape;
  return {x, reduced_axes(request, x)};
}

/// Launches one of two forms of a kernel: a thread for each result, or a block.
template <typename Function, typename... Arguments>
void launch_results(const LaunchState& state, const char* name, Function by_thread,
                    Function by_block, const ReduceLayout& layout, const Arguments&... arguments) {
  const bool blocks = suits_blocks(layout.terms, layout.outputs);
  LaunchShape shape = shape_for(layout.outputs);
  if (blocks)
    shape = {{static_cast<unsigned>(std::max<int64_t>(1, layout.outputs))},
             {kThreads},
             kThreads / kWarp * sizeof(double)};
  launch(state.driver, state.stream, name, shape, blocks ? by_block : by_thread, layout,
         arguments...);
}

Kernel prepare_reduce_extreme_grad(const Request& request) {
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    return {[layout = plan_of_gradient(request).layout](const Buffers& buffers,
                                                        const LaunchState& state) {
      launch_results(state, "reduce_extreme_grad", extreme_grad<false, T>, extreme_grad<true, T>,
                     layout, input<T>(buffers, 0), input<T>(buffers, 1), input<T>(buffers, 2),
                     output<T>(buffers, 0));
    }};
  });
}

Kernel prepare_reduce_prod_grad(const Request& request) {
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    return {[layout = plan_of_gradient(request).layout](const Buffers& buffers,
                                                        const LaunchState& state) {
      launch_results(state, "reduce_prod_grad", prod_grad<false, T>, prod_grad<true, T>, layout,
                     input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0));
    }};
  });
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
