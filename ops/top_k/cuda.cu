// Kernels of top_k, which returns the largest elements along an axis and their places, and of
// top_k_grad, which puts gradients at those places. Few elements are found one after another; many
// are found by sorting. Of equal elements, the first one comes first. NaN is larger than any
// number, as in NumPy.
#include <utility>

#include "ops/core/along_axis.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// Returns true if a comes before b in the result.
template <typename T>
__device__ bool is_before(const Best<T>& a, const Best<T>& b) {
  return exceeds(a.value, b.value) || (!exceeds(b.value, a.value) && a.place < b.place);
}

/// Returns the larger of two elements, or the one with the earlier place if they are equal,
/// regardless of the order of a and b.
template <typename T>
__device__ Best<T> larger(const Best<T>& a, const Best<T>& b) {
  return is_before(b, a) ? b : a;
}

using TopK = ops::PickedAlongAxis;  // the shapes of x and of the values and indices

/// Returns the best of this thread's elements of a column that come after `last` or, if there is no
/// such element, an element with place n.
template <typename T>
__device__ Best<T> best_after(const T* column, const TopK& sizes, const Best<T>& last, bool any) {
  Best<T> best{column[0], sizes.n};
  for (int64_t i = threadIdx.x; i < sizes.n; i += blockDim.x) {
    const Best<T> one{column[i * sizes.inner], i};
    if (any && !is_before(last, one)) continue;
    if (best.place == sizes.n || is_before(one, best)) best = one;
  }
  return best;
}

/// Returns the better of two elements. An element with place `none` does not exist.
template <typename T>
__device__ Best<T> better_of(const Best<T>& a, const Best<T>& b, int64_t none) {
  if (a.place == none) return b;
  return b.place == none ? a : larger(a, b);
}

/// Finds the largest elements one after another, with a block for each column. The number of
/// threads in a block is a power of two. `indices` may be null.
template <typename T>
__global__ void take_largest(const T* x, TopK sizes, T* values, int64_t* indices) {
  Best<T>* bests = shared<Best<T>>();
  for (int64_t c = blockIdx.x; c < sizes.columns(); c += gridDim.x) {
    const T* column = x + sizes.start(c);
    Best<T> last{column[0], 0};
    for (int64_t j = 0; j < sizes.count; ++j) {
      __syncthreads();  // all threads have read the previous best element
      bests[threadIdx.x] = best_after(column, sizes, last, j > 0);
      for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
          bests[threadIdx.x] = better_of(bests[threadIdx.x], bests[threadIdx.x + half], sizes.n);
      }
      __syncthreads();
      last = bests[0];
      const int64_t at = sizes.picked_start(c) + j * sizes.inner;
      if (threadIdx.x == 0) values[at] = last.value;
      if (threadIdx.x == 0 && indices) indices[at] = last.place;
    }
  }
}

// No two elements of a column are equal in the order of is_before, so every sorting method gives
// the same result.

constexpr int kSortedTile = 1024;    // elements that a block sorts in shared memory
constexpr int64_t kMostPasses = 32;  // the most elements that are found one after another

/// Returns true if a comes first. Elements after the end of a column have place `none` and come
/// last.
template <typename T>
__device__ bool sorts_before(const Best<T>& a, const Best<T>& b, int64_t none) {
  if (a.place == none || b.place == none) return a.place != none && b.place == none;
  return is_before(a, b);
}

/// Sorts the tile in shared memory with Batcher's method (1968). REQUIRES: all threads call it.
template <typename T>
__device__ void sort_tile(Best<T>* tile, int64_t none) {
  for (unsigned size = 2; size <= kSortedTile; size *= 2)
    for (unsigned apart = size / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (unsigned i = threadIdx.x; i < kSortedTile / 2; i += blockDim.x) {
        const unsigned low = 2 * i - (i & (apart - 1)), high = low + apart;
        const bool forward = (low & size) == 0;
        const Best<T> a = tile[low], b = tile[high];
        if (sorts_before(a, b, none) != forward) tile[low] = b, tile[high] = a;
      }
    }
  __syncthreads();
}

/// Writes the element of rank j in column c to the results.
template <typename T>
struct SortedTo {
  T* values;
  int64_t* indices;  // may be null

  __device__ void put(const TopK& sizes, int64_t c, int64_t j, const Best<T>& best) const {
    if (j >= sizes.count) return;
    const int64_t at = sizes.picked_start(c) + j * sizes.inner;
    values[at] = best.value;
    if (indices) indices[at] = best.place;
  }
};

/// Sorts tiles of columns with a block for each tile. Writes them to `sorted` [columns, n] or, if a
/// column is a single tile, to the results.
template <typename T>
__global__ void sort_tiles(const T* x, TopK sizes, int64_t tiles, Best<T>* sorted, SortedTo<T> to) {
  Best<T>* tile = shared<Best<T>>();
  for (int64_t block = blockIdx.x; block < sizes.columns() * tiles; block += gridDim.x) {
    const int64_t c = block / tiles, first = block % tiles * kSortedTile;
    const T* column = x + sizes.start(c);
    __syncthreads();  // all threads have read the previous tile
    for (int64_t i = threadIdx.x; i < kSortedTile; i += blockDim.x) {
      const int64_t at = first + i;
      tile[i] = at < sizes.n ? Best<T>{column[at * sizes.inner], at} : Best<T>{T{0}, sizes.n};
    }
    sort_tile(tile, sizes.n);
    for (int64_t i = threadIdx.x; i < kSortedTile && first + i < sizes.n; i += blockDim.x)
      if (sorted)
        sorted[c * sizes.n + first + i] = tile[i];
      else
        to.put(sizes, c, i, tile[i]);
  }
}

/// Returns the number of elements of a sorted run that come before `one`, which is not among them.
template <typename T>
__device__ int64_t count_before(const Best<T>* run, int64_t count, const Best<T>& one) {
  int64_t low = 0;
  while (low < count) {
    const int64_t middle = (low + count) / 2;
    if (is_before(run[middle], one))
      low = middle + 1;
    else
      count = middle;
  }
  return low;
}

/// Merges pairs of sorted runs of `width` elements in each column; each element computes its rank.
/// If `merged` is null, these are the last runs, and their elements are written to the results.
template <typename T>
__global__ void merge_runs(const Best<T>* sorted, TopK sizes, int64_t width, Best<T>* merged,
                           SortedTo<T> to) {
  const int64_t n = sizes.columns() * sizes.n;
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t c = at / sizes.n, i = at % sizes.n, run = i / width;
    const int64_t other = (run ^ 1) * width, left = sizes.n - other;
    const Best<T>* column = sorted + c * sizes.n;
    const int64_t count = left < 0 ? 0 : left < width ? left : width;
    const int64_t rank =
        run / 2 * 2 * width + (i - run * width) + count_before(column + other, count, column[i]);
    if (merged)
      merged[c * sizes.n + rank] = column[i];
    else
      to.put(sizes, c, rank, column[i]);
  }
}

/// dx[o, indices[o, j, i], i] = dy[o, j, i], j < k
template <typename T>
__global__ void place_largest(const T* dy, const int64_t* indices, TopK sizes, T* dx) {
  for (int64_t at = first_index(); at < sizes.picked(); at += index_step())
    dx[sizes.source(at, indices[at])] = dy[at];
}

/// Returns a kernel that finds the k largest elements by sorting all: it sorts tiles, then merges
/// pairs of runs, whose size doubles each time.
template <typename T>
Kernel sorting(const TopK& sizes) {
  const int64_t tiles = ceil_div<int64_t>(sizes.n, kSortedTile), n = sizes.columns() * sizes.n;
  Kernel kernel{[=](const Buffers& buffers, const LaunchState& state) {
    auto* runs = reinterpret_cast<Best<T>*>(buffers.workspace);
    const SortedTo<T> to{output<T>(buffers, 0), output<int64_t>(buffers, 1)};
    const LaunchShape shape{
        {blocks_for(sizes.columns() * tiles)}, {kThreads}, kSortedTile * sizeof(Best<T>)};
    launch(state, "sort_tiles", shape, sort_tiles<T>, input<T>(buffers, 0), sizes, tiles,
           tiles > 1 ? runs : nullptr, to);
    Best<T>*from = runs, *merged = runs + n;
    for (int64_t width = kSortedTile; width < sizes.n; width *= 2) {
      const bool last = 2 * width >= sizes.n;
      launch(state, "merge_runs", shape_for(n), merge_runs<T>, static_cast<const Best<T>*>(from),
             sizes, width, last ? nullptr : merged, to);
      std::swap(from, merged);
    }
  }};
  if (tiles > 1) kernel.workspace = static_cast<size_t>(2 * n) * sizeof(Best<T>);
  return kernel;
}

Kernel prepare_top_k(const Request& request) {
  const TopK sizes(request.inputs[0].shape, request.outputs[0].shape, request.step.attributes);
  if (sizes.count > kMostPasses)
    return visit_number(request.inputs[0].dtype,
                        [&]<typename T>(T) -> Kernel { return sorting<T>(sizes); });
  const unsigned threads = sizes.n >= kThreads ? kThreads : kWarp;
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const LaunchShape shape{{blocks_for(sizes.columns())}, {threads}, threads * sizeof(Best<T>)};
    return {[sizes, shape](const Buffers& buffers, const LaunchState& state) {
      launch(state, "top_k", shape, take_largest<T>, input<T>(buffers, 0), sizes,
             output<T>(buffers, 0), output<int64_t>(buffers, 1));
    }};
  });
}

Kernel prepare_top_k_grad(const Request& request) {
  const TensorDesc &dy = request.inputs[0], &dx = request.outputs[0];
  const TopK sizes(dx.shape, dy.shape, request.step.attributes);
  return visit_float(dy.dtype, [&]<typename T>(T) -> Kernel {
    return {[sizes, bytes = bytes_of(dx.shape, dx.dtype)](const Buffers& buffers,
                                                          const LaunchState& state) {
      state.driver.clear(buffers.outputs[0], bytes, state.stream);
      launch(state, "top_k_grad", shape_for(sizes.picked()), place_largest<T>, input<T>(buffers, 0),
             input<int64_t>(buffers, 1), sizes, output<T>(buffers, 0));
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
