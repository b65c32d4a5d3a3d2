// Gradients of reductions that look at the elements again: of the largest and the smallest, and of
// products. A thread for each result, or a block where there are few results of many elements.
#include "ops/reduce/cuda_grad.h"

#include <algorithm>

#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/reduce_plan.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

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

}  // namespace

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

}  // namespace flow::cuda
