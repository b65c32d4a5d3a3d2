// top_k: the largest elements along an axis and their places, one after another, the first on ties.
// A NaN is larger than any number, as in NumPy. top_k_grad puts gradients in those places.
#include "runtime/base/array.h"
#include "runtime/base/order.h"
#include "runtime/cuda/kernels/families.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// Does a stand before b among the largest?
template <typename T>
__device__ bool is_before(const Best<T>& a, const Best<T>& b) {
  return exceeds(a.value, b.value) || (!exceeds(b.value, a.value) && a.place < b.place);
}

/// The larger, of equals the first, whatever the order of a and b.
template <typename T>
__device__ Best<T> larger(const Best<T>& a, const Best<T>& b) {
  return is_before(b, a) ? b : a;
}

/// x [outer, n, inner], values and indices [outer, k, inner].
struct TopSizes {
  int64_t n, k, inner, columns;
};

/// The best of this thread's elements of a column among those that come after `last`; one of place
/// n where there is none.
template <typename T>
__device__ Best<T> best_after(const T* column, const TopSizes& sizes, const Best<T>& last,
                              bool any) {
  Best<T> best{column[0], sizes.n};
  for (int64_t i = threadIdx.x; i < sizes.n; i += blockDim.x) {
    const Best<T> one{column[i * sizes.inner], i};
    if (any && !is_before(last, one)) continue;
    if (best.place == sizes.n || is_before(one, best)) best = one;
  }
  return best;
}

/// The best of two of which either may be none.
template <typename T>
__device__ Best<T> better_of(const Best<T>& a, const Best<T>& b, int64_t none) {
  if (a.place == none) return b;
  return b.place == none ? a : larger(a, b);
}

/// A block for each column, of as many threads as a power of two. indices may be null.
template <typename T>
__global__ void take_largest(const T* x, TopSizes sizes, T* values, int64_t* indices) {
  Best<T>* bests = shared<Best<T>>();
  for (int64_t c = blockIdx.x; c < sizes.columns; c += gridDim.x) {
    const int64_t o = c / sizes.inner, own = c % sizes.inner;
    const T* column = x + o * sizes.n * sizes.inner + own;
    Best<T> last{column[0], 0};
    for (int64_t j = 0; j < sizes.k; ++j) {
      __syncthreads();  // all have read the best before
      bests[threadIdx.x] = best_after(column, sizes, last, j > 0);
      for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
          bests[threadIdx.x] = better_of(bests[threadIdx.x], bests[threadIdx.x + half], sizes.n);
      }
      __syncthreads();
      last = bests[0];
      const int64_t at = (o * sizes.k + j) * sizes.inner + own;
      if (threadIdx.x == 0) values[at] = last.value;
      if (threadIdx.x == 0 && indices) indices[at] = last.place;
    }
  }
}

/// dx[o, indices[o, j, i], i] = dy[o, j, i], j < k; n elements of dy.
template <typename T>
__global__ void place_largest(const T* dy, const int64_t* indices, TopSizes sizes, T* dx,
                              int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t o = at / (sizes.k * sizes.inner);
    dx[(o * sizes.n + indices[at]) * sizes.inner + at % sizes.inner] = dy[at];
  }
}

TopSizes sizes_of(const Shape& x, int axis, int64_t k) {
  return {x[axis], k, stride_of(x, axis), x.elements() / x[axis]};
}

Kernel prepare_top_k(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  const TopSizes sizes = sizes_of(x, axis, attribute<int64_t>(request, "k"));
  const unsigned threads = sizes.n >= kThreads ? kThreads : kWarp;
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const LaunchShape shape{{blocks_for(sizes.columns)}, {threads}, threads * sizeof(Best<T>)};
    return {[sizes, shape](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "top_k", shape, take_largest<T>, input<T>(buffers, 0),
             sizes, output<T>(buffers, 0), output<int64_t>(buffers, 1));
    }};
  });
}

Kernel prepare_top_k_grad(const Request& request) {
  const TensorDesc &dy = request.inputs[0], &dx = request.outputs[0];
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  const TopSizes sizes = sizes_of(dx.shape, axis, dy.shape[axis]);
  const size_t bytes = bytes_of(dx.shape, dx.dtype);
  return visit_float(dy.dtype, [&]<typename T>(T) -> Kernel {
    return {
        [sizes, bytes, n = dy.shape.elements()](const Buffers& buffers, const LaunchState& state) {
          state.driver.clear(buffers.outputs[0], bytes, state.stream);
          launch(state.driver, state.stream, "top_k_grad", shape_for(n), place_largest<T>,
                 input<T>(buffers, 0), input<int64_t>(buffers, 1), sizes, output<T>(buffers, 0), n);
        }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::top_k() {
  static constexpr KernelEntry kKernels[] = {
      {"top_k", prepare_top_k},
      {"top_k_grad", prepare_top_k_grad},
  };
  return kKernels;
}

}  // namespace flow::cuda
