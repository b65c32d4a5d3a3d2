// argmax and argmin: the index of the largest or smallest element along an axis; on ties, the
// first. A NaN precedes any number, as in NumPy.
#include "ops/core/along_axis.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// Returns the better of two candidates, or the one with the lower index on ties. The order of a
/// and b does not matter.
template <bool kLargest, typename T>
__device__ Best<T> better(const Best<T>& a, const Best<T>& b) {
  if (precedes<kLargest>(b.value, a.value)) return b;
  if (precedes<kLargest>(a.value, b.value)) return a;
  return b.place < a.place ? b : a;
}

/// Returns the best of the elements first, first + step, ... of a column. REQUIRES: first < x.n.
template <bool kLargest, typename T>
__device__ Best<T> best_of(const T* column, const ops::AlongAxis& x, int64_t first, int64_t step) {
  Best<T> best{column[first * x.inner], first};
  for (int64_t k = first + step; k < x.n; k += step)
    if (precedes<kLargest>(column[k * x.inner], best.value)) best = {column[k * x.inner], k};
  return best;
}

/// Computes x (outer, n, inner) -> out (outer, inner) with one thread per element of the result.
template <bool kLargest, typename T>
__global__ void place_by_thread(ops::AlongAxis sizes, const T* x, int64_t* out) {
  for (int64_t c = first_index(); c < sizes.columns(); c += index_step())
    out[c] = best_of<kLargest>(x + sizes.start(c), sizes, 0, 1).place;
}

/// Computes x (outer, n, inner) -> out (outer, inner) with one block per element of the result. The
/// number of threads in a block is a power of two and at most n.
template <bool kLargest, typename T>
__global__ void place_by_block(ops::AlongAxis sizes, const T* x, int64_t* out) {
  Best<T>* bests = shared<Best<T>>();
  for (int64_t c = blockIdx.x; c < sizes.columns(); c += gridDim.x) {
    __syncthreads();  // waits until the previous element is done
    bests[threadIdx.x] = best_of<kLargest>(x + sizes.start(c), sizes, threadIdx.x, blockDim.x);
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half)
        bests[threadIdx.x] = better<kLargest>(bests[threadIdx.x], bests[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) out[c] = bests[0].place;
  }
}

template <bool kLargest>
Kernel places(const Request& request) {
  const ops::AlongAxis x(request.inputs[0].shape, request.step.attributes);
  // With inner == 1, the threads of a block read adjacent elements.
  const bool by_block = (x.inner == 1 && x.n >= kWarp) || suits_blocks(x.n, x.columns());
  const unsigned threads = x.n >= kThreads ? kThreads : kWarp;
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    LaunchShape shape = shape_for(x.columns());
    if (by_block) shape = {{blocks_for(x.columns())}, {threads}, threads * sizeof(Best<T>)};
    const auto kernel = by_block ? place_by_block<kLargest, T> : place_by_thread<kLargest, T>;
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state, kLargest ? "argmax" : "argmin", shape, kernel, x, input<T>(buffers, 0),
             output<int64_t>(buffers, 0));
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::argmax() {
  static constexpr KernelEntry kKernels[] = {
      {"argmax", places<true>},
      {"argmin", places<false>},
  };
  return kKernels;
}

}  // namespace flow::cuda
