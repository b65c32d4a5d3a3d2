// Reductions by any operation over any axes, in fixed trees, the same bits in every run.
#pragma once

#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/reduce_plan.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {

// Fold is an operation: Sum (what is carried along), first() (of nothing), term(x, output) of an
// element, join(sum, sum), which commutes, and last(sum, output), the result of that number.
// Elements are read from an X, a pointer or Integers, and written to an R, likewise.

template <typename T>
__device__ void store_at(T* out, int64_t i, T value) {
  out[i] = value;
}
__device__ inline void store_at(IntegerResults out, int64_t i, int64_t value) {
  out.store(i, value);
}

template <typename Fold>
struct Join {
  Fold fold;
  template <typename Sum>
  __device__ Sum operator()(Sum a, Sum b) const {
    return fold.join(a, b);
  }
};

/// Terms first, first + step, ... below end. Four at a time, so that loads overlap.
template <typename Fold, typename X>
__device__ typename Fold::Sum fold_terms(const Fold& fold, X x, const Folds& folds, int64_t first,
                                         int64_t end, int64_t step, int64_t output) {
  const int64_t origin = folds.kept.at(output).of[0];
  const auto term = [&](int64_t i) {
    return fold.term(x[origin + folds.reduced.at(i).of[0]], output);
  };
  typename Fold::Sum sums[4] = {fold.first(), fold.first(), fold.first(), fold.first()};
  int64_t i = first;
  for (; i + 3 * step < end; i += 4 * step)
    for (int k = 0; k < 4; ++k) sums[k] = fold.join(sums[k], term(i + k * step));
  for (; i < end; i += step) sums[0] = fold.join(sums[0], term(i));
  return fold.join(fold.join(sums[0], sums[1]), fold.join(sums[2], sums[3]));
}

/// A result, or a part of it.
template <typename Fold, typename R>
__device__ void store(const Fold& fold, const Folds& folds, int64_t output, typename Fold::Sum sum,
                      typename Fold::Sum* parts, R out) {
  if (folds.chunks == 1)
    store_at(out, output, fold.last(sum, output));
  else
    parts[output * folds.chunks + blockIdx.y] = sum;
}

/// A block for each output and chunk (blockIdx.y): its threads share the terms.
template <typename Fold, typename X, typename R>
__global__ void fold_rows(Fold fold, Folds folds, X x, typename Fold::Sum* parts, R out) {
  const int64_t first = blockIdx.y * folds.chunk;
  const int64_t end = first + folds.chunk < folds.terms ? first + folds.chunk : folds.terms;
  for (int64_t output = blockIdx.x; output < folds.outputs; output += gridDim.x) {
    const auto own = fold_terms(fold, x, folds, first + threadIdx.x, end,
                                static_cast<int64_t>(blockDim.x), output);
    const auto sum = over_block(own, Join<Fold>{fold});
    if (threadIdx.x == 0) store(fold, folds, output, sum, parts, out);
  }
}

/// A block of kFoldColumns x kFoldRows threads for as many outputs and a chunk: a row of threads
/// for every kFoldRows-th term.
template <typename Fold, typename X, typename R>
__global__ void fold_columns(Fold fold, Folds folds, X x, typename Fold::Sum* parts, R out) {
  auto* own = shared<typename Fold::Sum>() + threadIdx.x;
  const int64_t first = blockIdx.y * folds.chunk;
  const int64_t end = first + folds.chunk < folds.terms ? first + folds.chunk : folds.terms;
  for (int64_t column = static_cast<int64_t>(blockIdx.x) * kFoldColumns; column < folds.outputs;
       column += static_cast<int64_t>(gridDim.x) * kFoldColumns) {
    const int64_t output = column + threadIdx.x;
    const bool any = output < folds.outputs;
    __syncthreads();  // the sums of the columns before
    if (any)
      own[threadIdx.y * kFoldColumns] =
          fold_terms(fold, x, folds, first + threadIdx.y, end, kFoldRows, output);
    __syncthreads();
    if (threadIdx.y > 0 || !any) continue;
    auto sum = fold.first();
    for (int row = 0; row < kFoldRows; ++row) sum = fold.join(sum, own[row * kFoldColumns]);
    store(fold, folds, output, sum, parts, out);
  }
}

/// A warp for each output: its chunks joined.
template <typename Fold, typename R>
__global__ void join_chunks(Fold fold, Folds folds, const typename Fold::Sum* parts, R out) {
  for (int64_t output = blockIdx.x; output < folds.outputs; output += gridDim.x) {
    auto sum = fold.first();
    for (int64_t chunk = threadIdx.x; chunk < folds.chunks; chunk += kWarp)
      sum = fold.join(sum, parts[output * folds.chunks + chunk]);
    sum = over_warp(sum, Join<Fold>{fold});
    if (threadIdx.x == 0) store_at(out, output, fold.last(sum, output));
  }
}

/// out = the folds of x. REQUIRES: x and out do not overlap.
template <typename Fold, typename X, typename R>
void launch_fold(const char* name, const Fold& fold, const FoldPlan& plan, X x, R out,
                 std::byte* workspace, const LaunchState& state) {
  using Carried = typename Fold::Sum;
  auto* parts = reinterpret_cast<Carried*>(workspace);
  const auto kernel = plan.by_rows ? fold_rows<Fold, X, R> : fold_columns<Fold, X, R>;
  launch(state.driver, state.stream, name, plan.shape(sizeof(Carried)), kernel, fold, plan.folds, x,
         parts, out);
  if (plan.folds.chunks > 1)
    launch(state.driver, state.stream, "join_chunks", plan.joining_shape(), join_chunks<Fold, R>,
           fold, plan.folds, parts, out);
}

}  // namespace flow::cuda
