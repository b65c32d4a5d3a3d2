// argmax and argmin: the place of the largest or smallest element along an axis, the first on ties.
// A NaN comes before any number, as in NumPy.
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// The better, of equals the first, whatever the order of a and b.
template <bool kLargest, typename T>
__device__ Best<T> better(const Best<T>& a, const Best<T>& b) {
  if (precedes<kLargest>(b.value, a.value)) return b;
  if (precedes<kLargest>(a.value, b.value)) return a;
  return b.place < a.place ? b : a;
}

/// The best of places first, first + step, ... below n of a column. REQUIRES: first < n.
template <bool kLargest, typename T>
__device__ Best<T> best_of(const T* column, int64_t n, int64_t inner, int64_t first, int64_t step) {
  Best<T> best{column[first * inner], first};
  for (int64_t k = first + step; k < n; k += step)
    if (precedes<kLargest>(column[k * inner], best.value)) best = {column[k * inner], k};
  return best;
}

/// x [outer, n, inner] -> out [outer, inner], a thread for each element of it.
template <bool kLargest, typename T>
__global__ void place_by_thread(const T* x, int64_t n, int64_t inner, int64_t count, int64_t* out) {
  for (int64_t i = first_index(); i < count; i += index_step())
    out[i] = best_of<kLargest>(x + i / inner * n * inner + i % inner, n, inner, 0, 1).place;
}

/// The same, a block of as many threads as a power of two, n at most, for each element.
template <bool kLargest, typename T>
__global__ void place_by_block(const T* x, int64_t n, int64_t inner, int64_t count, int64_t* out) {
  Best<T>* bests = shared<Best<T>>();
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    __syncthreads();  // the element before
    const T* column = x + i / inner * n * inner + i % inner;
    bests[threadIdx.x] = best_of<kLargest>(column, n, inner, threadIdx.x, blockDim.x);
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half)
        bests[threadIdx.x] = better<kLargest>(bests[threadIdx.x], bests[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) out[i] = bests[0].place;
  }
}

template <bool kLargest, typename T>
Launch place_launch(int64_t n, int64_t inner, int64_t count) {
  // A block reads adjacent elements where there is nothing inside the axis.
  const bool by_block = (inner == 1 && n >= kWarp) || suits_blocks(n, count);
  const unsigned threads = n >= kThreads ? kThreads : kWarp;
  LaunchShape shape = shape_for(count);
  if (by_block) shape = {{blocks_for(count)}, {threads}, threads * sizeof(Best<T>)};
  const auto kernel = by_block ? place_by_block<kLargest, T> : place_by_thread<kLargest, T>;
  return [=](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, kLargest ? "argmax" : "argmin", shape, kernel,
           input<T>(buffers, 0), n, inner, count, output<int64_t>(buffers, 0));
  };
}

template <bool kLargest>
Kernel places(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {place_launch<kLargest, T>(x[axis], stride_of(x, axis), result_elements(request))};
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
