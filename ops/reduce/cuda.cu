// Kernels of reductions over any axes: sums, means, maxima, minima, products, any, all and
// logsumexp; and of those gradients that read the elements again: of maxima, minima and products. A
// thread computes each result, or a block if there are few results with many elements.
#include <algorithm>

#include "ops/core/spec.h"
#include "ops/reduce/problem.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/reduce_tree.cuh"
#include "runtime/cuda/loops/reduction.h"

namespace flow::cuda {
namespace {

ReducePlan plan_of(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  return {x, reduced_axes(request, x)};
}

template <typename T, typename Reducer>
Kernel reduce_kernel(const Request& request) {
  const ReducePlan plan = plan_of(request);
  return {
      [=, name = request.step.op->name.data()](const Buffers& buffers, const LaunchState& state) {
        launch_reduce(name, Reducer{}, plan, input<T>(buffers, 0), output<T>(buffers, 0),
                      buffers.workspace, state);
      },
      plan.workspace(sizeof(typename Reducer::Sum))};
}

/// Reduces integers of any dtype as int64, which wraps around in the same way.
template <typename Reducer>
Kernel reduce_integers(const Request& request) {
  const ReducePlan plan = plan_of(request);
  return {[=, name = request.step.op->name.data(), dtype = request.inputs[0].dtype](
              const Buffers& buffers, const LaunchState& state) {
            launch_reduce(name, Reducer{}, plan, Integers{buffers.inputs[0], dtype},
                          IntegerResults{buffers.outputs[0], dtype}, buffers.workspace, state);
          },
          plan.workspace(sizeof(typename Reducer::Sum))};
}

template <template <typename> class Reducer>
Kernel reduce_numbers(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_integer(dtype)) return reduce_integers<Reducer<int64_t>>(request);
  return visit_float(dtype, [&]<typename T>(T) { return reduce_kernel<T, Reducer<T>>(request); });
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
            launch_reduce("largest", ops::Largest<T>{}, plan, x, max, buffers.workspace, state);
            launch_reduce("logsumexp", ops::LogSumExp<T>{max}, plan, x, output<T>(buffers, 0),
                          buffers.workspace, state);
          },
          parts + static_cast<size_t>(result_elements(request)) * sizeof(T)};
}

Kernel prepare_reduce_sum(const Request& request) {
  if (is_integer(request.inputs[0].dtype))
    return reduce_integers<ops::IntegerSum<int64_t>>(request);
  const Reduction sums = sums_of(request);
  return {sums.sum(1), sums.workspace()};
}

Kernel prepare_reduce_mean(const Request& request) {
  const Reduction sums = sums_of(request);
  return {sums.sum(1.0 / static_cast<double>(sums.terms())), sums.workspace()};
}

Kernel prepare_logsumexp(const Request& request) {
  return visit_float(request.inputs[0].dtype,
                     [&]<typename T>(T) { return logsumexp_kernel<T>(request); });
}

/// The results, or the elements of a result, that a thread reads: first, first + step, ...
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

/// Combines with `op` the values of the threads that share a result.
template <bool kByBlock, typename T, typename Op>
__device__ T over_sharers(T value, Op op) {
  if constexpr (kByBlock) value = over_block(value, op);
  return value;
}

/// dx = dy at the first element that equals the result or is NaN, and 0 elsewhere.
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

/// dx = dy times the product of the other elements. This is exact if there are zeros: if one
/// element is 0, only its gradient is not 0; if several are, all gradients are 0.
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
    product = over_sharers<kByBlock>(product, functions::Multiply<double>());
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

/// Launches one of two forms of a kernel: with a thread for each result, or with a block for each.
template <typename Function, typename... Arguments>
void launch_results(const LaunchState& state, const char* name, Function by_thread,
                    Function by_block, const ReduceLayout& layout, const Arguments&... arguments) {
  const bool blocks = suits_blocks(layout.terms, layout.outputs);
  LaunchShape shape = shape_for(layout.outputs);
  if (blocks)
    shape = {{static_cast<unsigned>(std::max<int64_t>(1, layout.outputs))},
             {kThreads},
             kThreads / kWarp * sizeof(double)};
  launch(state, name, shape, blocks ? by_block : by_thread, layout, arguments...);
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
      {"reduce_max", reduce_numbers<ops::Largest>},
      {"reduce_min", reduce_numbers<ops::Smallest>},
      {"reduce_prod", reduce_numbers<ops::Product>, Order::kOwn},
      {"reduce_any", reduce_kernel<bool, ops::Truth<false, int32_t>>},
      {"reduce_all", reduce_kernel<bool, ops::Truth<true, int32_t>>},
      {"logsumexp", prepare_logsumexp, Order::kOwn},
      {"reduce_extreme_grad", prepare_reduce_extreme_grad},
      {"reduce_prod_grad", prepare_reduce_prod_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
