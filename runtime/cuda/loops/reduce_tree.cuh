// Reductions by any operation over any axes. They use fixed trees, so that results are
// bit-identical in every run.
#pragma once

#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/reduction.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {

// A Reducer is an operation with these members: Sum, the type of the accumulator; first(), the
// accumulator of no elements; term(x, output), the accumulator of one element; join(sum, sum),
// which commutes; and last(sum, output), the result with that number. Elements are read from an X,
// which is a pointer or Integers, and written to an R, which is a pointer or IntegerResults.

template <typename T>
__device__ void store_at(T* out, int64_t i, T value) {
  out[i] = value;
}
__device__ inline void store_at(IntegerResults out, int64_t i, int64_t value) {
  out.store(i, value);
}

template <typename Reducer>
struct Join {
  Reducer reducer;
  template <typename Sum>
  __device__ Sum operator()(Sum a, Sum b) const {
    return reducer.join(a, b);
  }
};

/// Reduces the terms first, first + step, ... below end. Processes four at a time, so that loads
/// overlap.
template <typename Reducer, typename X>
__device__ typename Reducer::Sum reduce_terms(const Reducer& reducer, X x,
                                              const ReduceLayout& layout, int64_t first,
                                              int64_t end, int64_t step, int64_t output) {
  const int64_t origin = layout.kept.at(output).of[0];
  const auto term = [&](int64_t i) {
    return reducer.term(x[origin + layout.reduced.at(i).of[0]], output);
  };
  typename Reducer::Sum sums[4] = {reducer.first(), reducer.first(), reducer.first(),
                                   reducer.first()};
  int64_t i = first;
  for (; i + 3 * step < end; i += 4 * step)
    for (int k = 0; k < 4; ++k) sums[k] = reducer.join(sums[k], term(i + k * step));
  for (; i < end; i += step) sums[0] = reducer.join(sums[0], term(i));
  return reducer.join(reducer.join(sums[0], sums[1]), reducer.join(sums[2], sums[3]));
}

/// Stores a result, or a part of it.
template <typename Reducer, typename R>
__device__ void store(const Reducer& reducer, const ReduceLayout& layout, int64_t output,
                      typename Reducer::Sum sum, typename Reducer::Sum* parts, R out) {
  if (layout.chunks == 1)
    store_at(out, output, reducer.last(sum, output));
  else
    parts[output * layout.chunks + blockIdx.y] = sum;
}

/// Reduces with a block for each output and chunk (blockIdx.y), whose threads share the terms.
template <typename Reducer, typename X, typename R>
__global__ void reduce_rows(Reducer reducer, ReduceLayout layout, X x, typename Reducer::Sum* parts,
                            R out) {
  const int64_t first = blockIdx.y * layout.chunk;
  const int64_t end = first + layout.chunk < layout.terms ? first + layout.chunk : layout.terms;
  for (int64_t output = blockIdx.x; output < layout.outputs; output += gridDim.x) {
    const auto own = reduce_terms(reducer, x, layout, first + threadIdx.x, end,
                                  static_cast<int64_t>(blockDim.x), output);
    const auto sum = over_block(own, Join<Reducer>{reducer});
    if (threadIdx.x == 0) store(reducer, layout, output, sum, parts, out);
  }
}

/// Reduces with a block of kReduceColumns x kReduceRows threads for kReduceColumns outputs and one
/// chunk. Each row of threads takes every kReduceRows-th term.
template <typename Reducer, typename X, typename R>
__global__ void reduce_columns(Reducer reducer, ReduceLayout layout, X x,
                               typename Reducer::Sum* parts, R out) {
  auto* own = shared<typename Reducer::Sum>() + threadIdx.x;
  const int64_t first = blockIdx.y * layout.chunk;
  const int64_t end = first + layout.chunk < layout.terms ? first + layout.chunk : layout.terms;
  for (int64_t column = static_cast<int64_t>(blockIdx.x) * kReduceColumns; column < layout.outputs;
       column += static_cast<int64_t>(gridDim.x) * kReduceColumns) {
    const int64_t output = column + threadIdx.x;
    const bool any = output < layout.outputs;
    __syncthreads();  // waits until the sums of the previous columns have been read
    if (any)
      own[threadIdx.y * kReduceColumns] =
          reduce_terms(reducer, x, layout, first + threadIdx.y, end, kReduceRows, output);
    __syncthreads();
    if (threadIdx.y > 0 || !any) continue;
    auto sum = reducer.first();
    for (int row = 0; row < kReduceRows; ++row) sum = reducer.join(sum, own[row * kReduceColumns]);
    store(reducer, layout, output, sum, parts, out);
  }
}

/// Joins the chunks of each output with one warp.
template <typename Reducer, typename R>
__global__ void join_chunks(Reducer reducer, ReduceLayout layout,
                            const typename Reducer::Sum* parts, R out) {
  for (int64_t output = blockIdx.x; output < layout.outputs; output += gridDim.x) {
    auto sum = reducer.first();
    for (int64_t chunk = threadIdx.x; chunk < layout.chunks; chunk += kWarp)
      sum = reducer.join(sum, parts[output * layout.chunks + chunk]);
    sum = over_warp(sum, Join<Reducer>{reducer});
    if (threadIdx.x == 0) store_at(out, output, reducer.last(sum, output));
  }
}

/// out = the reductions of x. REQUIRES: x and out do not overlap.
template <typename Reducer, typename X, typename R>
void launch_reduce(const char* name, const Reducer& reducer, const ReducePlan& plan, X x, R out,
                   std::byte* workspace, const LaunchState& state) {
  using Carried = typename Reducer::Sum;
  auto* parts = reinterpret_cast<Carried*>(workspace);
  const auto kernel = plan.by_rows ? reduce_rows<Reducer, X, R> : reduce_columns<Reducer, X, R>;
  launch(state.driver, state.stream, name, plan.shape(sizeof(Carried)), kernel, reducer,
         plan.layout, x, parts, out);
  if (plan.layout.chunks > 1)
    launch(state.driver, state.stream, "join_chunks", plan.joining_shape(), join_chunks<Reducer, R>,
           reducer, plan.layout, parts, out);
}

}  // namespace flow::cuda
