// CUDA kernels of gather_grad, scatter_add and sparse_gather_grad. They add the elements of each
// index in the order of the indices, so that results are bit-identical in every run.
#include <limits>

#include "ops/core/cuda_launch.cuh"
#include "ops/gather/cuda.h"
#include "ops/gather/problem.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// The places of each index of the extent, in order: those of index j are places[begins[j]] to
/// places[begins[j + 1] - 1].
struct Picks {
  int32_t* counts;      // [extent]: number of places of each index; later, of those not written yet
  int32_t* many_count;  // [1]: number of indices with more than kFew places
  int32_t* many;        // [count / (kFew + 1)]: indices with more than kFew places, in any order
  int32_t* begins;      // [extent + 1]
  int32_t* unordered;   // [count]: the places of each index, in the order of their writes
  int32_t* places;      // [count]
};

/// The largest number of places of one index that are sorted by comparing each with all others, and
/// that one thread adds up.
constexpr int32_t kFew = 512;

/// Counts the places of each index. REQUIRES: `counts` contains zeros.
__global__ void count_picks(Integers indices, GatherSizes sizes, Picks picks) {
  for (int64_t i = first_index(); i < sizes.count; i += index_step())
    if (const int64_t index = indices[i]; sizes.has(index)) atomicAdd(picks.counts + index, 1);
}

/// Computes begins[j] = the sum of all counts before j, and lists the indices with many places.
/// Each block handles a stretch of the indices and first adds up all counts before the stretch.
/// REQUIRES: many_count is zero; blocks have one column of threads.
__global__ void sum_counts(GatherSizes sizes, int64_t stretch, Picks picks) {
  const int64_t first = blockIdx.x * stretch;
  const int64_t end = first + stretch < sizes.extent ? first + stretch : sizes.extent;
  int32_t own = 0;
  for (int64_t j = threadIdx.y; j < first; j += blockDim.y) own += picks.counts[j];
  int32_t before = sum_of_threads(own).all;
  for (int64_t tile = first; tile < end; tile += blockDim.y) {
    const int64_t j = tile + threadIdx.y;
    const int32_t count = j < end ? picks.counts[j] : 0;
    const ColumnScan<int32_t> sums = sum_of_threads(count);
    if (j < end) picks.begins[j] = before + sums.before;
    if (count > kFew) picks.many[atomicAdd(picks.many_count, 1)] = static_cast<int32_t>(j);
    before += sums.all;
  }
  if (end == sizes.extent && threadIdx.y == 0) picks.begins[end] = before;
}

/// Returns how many indices one block sums. Each block reads all counts before its stretch, so the
/// number of blocks is kept small.
int64_t stretch_of_sums(int64_t extent) {
  constexpr int64_t kMostBlocks = 128;
  return round_up(ceil_div(extent, kMostBlocks), kThreads);
}

LaunchShape shape_for_sums(int64_t extent) {
  const auto blocks = static_cast<unsigned>(ceil_div(extent, stretch_of_sums(extent)));
  return {{blocks}, {1, kThreads}, kThreads * sizeof(int32_t)};
}

/// Writes the places of each index, in an order that differs from call to call.
__global__ void write_picks(Integers indices, GatherSizes sizes, Picks picks) {
  for (int64_t i = first_index(); i < sizes.count; i += index_step())
    if (const int64_t index = indices[i]; sizes.has(index))
      picks.unordered[picks.begins[index] + atomicAdd(picks.counts + index, -1) - 1] =
          static_cast<int32_t>(i);
}

/// Sorts the places of each index, so that sums do not depend on the order in which threads wrote
/// them. Each thread counts the places of its index that come before its place; adjacent threads
/// read the same places.
__global__ void order_picks(Integers indices, GatherSizes sizes, Picks picks) {
  const int32_t all = picks.begins[sizes.extent];
  for (int64_t at = first_index(); at < all; at += index_step()) {
    const int32_t place = picks.unordered[at];
    const int64_t index = indices[place];
    const int32_t begin = picks.begins[index], end = picks.begins[index + 1];
    if (end - begin > kFew) continue;
    int32_t before = 0;
    for (int32_t other = begin; other < end; ++other)
      before += picks.unordered[other] < place ? 1 : 0;
    picks.places[begin + before] = place;
  }
}

/// Sorts the places of indices with more than kFew places. A block handles one index at a time:
/// each thread scans a stretch of all places and writes those of the index after the ones that the
/// threads before it write.
__global__ void order_many_picks(Integers indices, GatherSizes sizes, Picks picks) {
  const int64_t stretch = ceil_div(sizes.count, blockDim.y), first = threadIdx.y * stretch;
  const int64_t end = first + stretch < sizes.count ? first + stretch : sizes.count;
  for (int32_t k = blockIdx.x; k < *picks.many_count; k += gridDim.x) {
    const int32_t j = picks.many[k];
    int32_t own = 0;
    for (int64_t i = first; i < end; ++i) own += indices[i] == j ? 1 : 0;
    int32_t at = picks.begins[j] + sum_of_threads(own).before;
    for (int64_t i = first; i < end; ++i)
      if (indices[i] == j) picks.places[at++] = static_cast<int32_t>(i);
  }
}

/// Returns `sum` plus the elements at the places [begin, end), added in the order of the places.
template <typename T>
__device__ T add_places(const int32_t* places, int32_t begin, int32_t end, const T* elements,
                        int64_t inner, T sum) {
  constexpr int kAhead = 8;  // independent loads in flight
  for (int32_t p = begin; p < end; p += kAhead) {
    T ahead[kAhead];
    for (int k = 0; k < kAhead; ++k)
      ahead[k] = p + k < end ? elements[places[p + k] * inner] : T{0};
    for (int k = 0; k < kAhead; ++k)
      if (p + k < end) sum += ahead[k];
  }
  return sum;
}

/// Computes n elements out[o, j, k] = onto[o, j, k] plus all rows[o, i, k] of the places i of j, in
/// the order of the places. Without `onto`, the sums start at zero. Skips indices with more than
/// `most` places.
template <typename T>
__global__ void add_picks(Picks picks, const T* rows, const T* onto, GatherSizes sizes, T* out,
                          int32_t most, int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t row = at / sizes.inner, o = row / sizes.extent, j = row - o * sizes.extent;
    const int32_t begin = picks.begins[j], end = picks.begins[j + 1];
    if (end - begin > most) continue;
    const T* from = rows + o * sizes.count * sizes.inner + at % sizes.inner;
    out[at] = add_places(picks.places, begin, end, from, sizes.inner, onto ? onto[at] : T{0});
  }
}

/// Does the same as add_picks for indices with many places: each thread of a column adds up a
/// stretch of the places, and the sums of the stretches are added in order. Each block computes
/// blockDim.x elements of an index.
template <typename T>
__global__ void add_many_picks(Picks picks, const T* rows, const T* onto, GatherSizes sizes,
                               T* out) {
  T* const sums = shared<T>() + threadIdx.x;
  const int64_t elements = sizes.outer * sizes.inner, step = gridDim.x * int64_t{blockDim.x};
  for (int32_t m = blockIdx.y; m < *picks.many_count; m += gridDim.y) {
    const int32_t j = picks.many[m], end = picks.begins[j + 1];
    const auto stretch = static_cast<int32_t>(ceil_div(end - picks.begins[j], int(blockDim.y)));
    const int32_t own = picks.begins[j] + static_cast<int32_t>(threadIdx.y) * stretch;
    for (int64_t first = blockIdx.x * int64_t{blockDim.x}; first < elements; first += step) {
      const int64_t element = first + threadIdx.x;
      const bool known = element < elements;
      const int64_t o = element / sizes.inner, k = element - o * sizes.inner;
      const T* from = rows + o * sizes.count * sizes.inner + k;
      const int32_t own_end = known ? (own + stretch < end ? own + stretch : end) : own;
      __syncthreads();  // the previous sums have been read
      sums[threadIdx.y * blockDim.x] =
          add_places(picks.places, own, own_end, from, sizes.inner, T{0});
      __syncthreads();
      if (threadIdx.y > 0 || !known) continue;
      const int64_t at = (o * sizes.extent + j) * sizes.inner + k;
      T sum = onto ? onto[at] : T{0};
      for (unsigned y = 0; y < blockDim.y; ++y) sum += sums[y * blockDim.x];
      out[at] = sum;
    }
  }
}

/// Returns the largest possible number of indices with many places.
int64_t most_many(const GatherSizes& sizes) { return sizes.count / (kFew + 1); }

LaunchShape shape_for_many(const GatherSizes& sizes, size_t element_bytes) {
  constexpr int64_t kMostInY = 65535;  // CUDA's limit on the y dimension of a grid
  return {{blocks_for(ceil_div<int64_t>(sizes.outer * sizes.inner, kWarp)),
           static_cast<unsigned>(std::min(most_many(sizes), kMostInY))},
          {kWarp, kThreads / kWarp},
          kThreads * element_bytes};
}

int64_t workspace_elements(const GatherSizes& sizes) {
  return 2 * sizes.extent + 2 + most_many(sizes) + 2 * sizes.count;
}

/// Lays out the arrays in `memory`, which has workspace_elements elements.
Picks picks_in(int32_t* memory, const GatherSizes& sizes) {
  Picks picks;
  picks.counts = memory;
  picks.many_count = picks.counts + sizes.extent;
  picks.begins = picks.many_count + 1;
  picks.many = picks.begins + sizes.extent + 1;
  picks.unordered = picks.many + most_many(sizes);
  picks.places = picks.unordered + sizes.count;
  return picks;
}

/// Counts the places of each index and finds where they begin.
void count_places(const Integers& indices, const GatherSizes& sizes, const Picks& picks,
                  const LaunchState& state) {
  // many_count is stored directly after the counts, so one call clears both.
  state.driver.clear(picks.counts, static_cast<size_t>(sizes.extent + 1) * sizeof(int32_t),
                     state.stream);
  launch(state, "count_picks", shape_for(sizes.count), count_picks, indices, sizes, picks);
  launch(state, "sum_counts", shape_for_sums(sizes.extent), sum_counts, sizes,
         stretch_of_sums(sizes.extent), picks);
}

/// Writes the places of each index in order.
void order_places(const Integers& indices, const GatherSizes& sizes, const Picks& picks,
                  const LaunchState& state) {
  launch(state, "write_picks", shape_for(sizes.count), write_picks, indices, sizes, picks);
  launch(state, "order_picks", shape_for(sizes.count), order_picks, indices, sizes, picks);
  if (const int64_t many = most_many(sizes); many > 0)
    launch(state, "order_many_picks",
           {{blocks_for(many)}, {1, kThreads}, kThreads * sizeof(int32_t)}, order_many_picks,
           indices, sizes, picks);
}

/// Launches gather_grad(indices, dy) or scatter_add(in, indices, updates). The indices of
/// gather_grad need no check, because gather has already checked them. With `in_order`, the rows of
/// an index are added one after another regardless of how many there are.
template <typename T>
Launch scatter_launch(const Request& request, const GatherSizes& sizes, bool in_order) {
  const size_t at = request.inputs.size() - 2;  // the operand with the indices
  return [=, check = at > 0 ? check_launch(request, at, sizes.extent) : Launch(),
          dtype = request.inputs[at].dtype,
          n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    if (check) check(buffers, state);
    const Picks picks = picks_in(reinterpret_cast<int32_t*>(buffers.workspace), sizes);
    const Integers indices{buffers.inputs[at], dtype};
    const T *rows = input<T>(buffers, at + 1), *onto = at > 0 ? input<T>(buffers, 0) : nullptr;
    count_places(indices, sizes, picks, state);
    order_places(indices, sizes, picks, state);
    const int64_t many = most_many(sizes);
    launch(state, "add_picks", shape_for(n), add_picks<T>, picks, rows, onto, sizes,
           output<T>(buffers, 0), in_order ? std::numeric_limits<int32_t>::max() : kFew, n);
    if (many == 0 || in_order) return;
    launch(state, "add_many_picks", shape_for_many(sizes, sizeof(T)), add_many_picks<T>, picks,
           rows, onto, sizes, output<T>(buffers, 0));
  };
}

/// Sets picked[j] to 1 if index j has a place, else to 0. sum_counts turns these flags into the
/// numbers of rows.
__global__ void find_picked(Picks picks, GatherSizes sizes, int32_t* picked) {
  for (int64_t j = first_index(); j < sizes.extent; j += index_step())
    picked[j] = picks.counts[j] > 0 ? 1 : 0;
}

/// Computes n elements of rows[r, :] = the sum of dy[i, :] over the places i of the index of row r,
/// in the order of the places. The row of index j is numbers[j], the number of picked indices
/// before j. Rows after the last one are zero and have the index -1. The thread at the first place
/// of an index computes its row.
template <typename T>
__global__ void add_rows(Integers indices, Picks picks, const int32_t* numbers, const T* dy,
                         GatherSizes sizes, T* rows, int64_t* of_rows, int64_t n) {
  const int64_t all = picks.begins[sizes.extent], different = numbers[sizes.extent];
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t p = at / sizes.inner, k = at - p * sizes.inner;
    if (p >= different) {
      rows[at] = T{0};
      if (k == 0) of_rows[p] = -1;
    }
    if (p >= all) continue;
    const int64_t index = indices[picks.places[p]];
    const int32_t begin = picks.begins[index];
    if (begin != p) continue;
    const int64_t r = numbers[index];
    rows[r * sizes.inner + k] =
        add_places(picks.places, begin, picks.begins[index + 1], dy + k, sizes.inner, T{0});
    if (k == 0) of_rows[r] = index;
  }
}

template <typename T>
Launch rows_launch(const Request& request, const GatherSizes& sizes) {
  return [=, dtype = request.inputs[0].dtype, n = result_elements(request)](
             const Buffers& buffers, const LaunchState& state) {
    auto* memory = reinterpret_cast<int32_t*>(buffers.workspace);
    const Picks picks = picks_in(memory, sizes);
    Picks numbers{};  // counts each picked index once
    numbers.counts = memory + workspace_elements(sizes);
    numbers.many_count = picks.many_count;
    numbers.begins = numbers.counts + sizes.extent;
    const Integers indices{buffers.inputs[0], dtype};
    count_places(indices, sizes, picks, state);
    launch(state, "find_picked", shape_for(sizes.extent), find_picked, picks, sizes,
           numbers.counts);
    launch(state, "sum_counts", shape_for_sums(sizes.extent), sum_counts, sizes,
           stretch_of_sums(sizes.extent), numbers);
    order_places(indices, sizes, picks, state);
    launch(state, "add_rows", shape_for(n), add_rows<T>, indices, picks,
           static_cast<const int32_t*>(numbers.begins), input<T>(buffers, 1), sizes,
           output<T>(buffers, 0), output<int64_t>(buffers, 1), n);
  };
}

Kernel scatter_kernel(const Request& request, bool in_order) {
  const TensorDesc& indices = request.inputs[request.inputs.size() - 2];
  const GatherSizes sizes =
      GatherSizes::of(request.step.attributes, request.outputs[0].shape, indices.shape);
  return visit_float(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {scatter_launch<T>(request, sizes, in_order),
            static_cast<size_t>(workspace_elements(sizes)) * sizeof(int32_t)};
  });
}

}  // namespace

Kernel prepare_scatter(const Request& request) { return scatter_kernel(request, false); }

/// Prepares sparse_gather_grad. The workspace is that of gather_grad, followed by the numbers of
/// the indices.
Kernel prepare_sparse_gather_grad(const Request& request) {
  const TensorDesc &indices = request.inputs[0], &dy = request.inputs[1];
  const GatherSizes sizes = GatherSizes::of_rows(request.step.attributes, indices.shape, dy.shape);
  const int64_t elements = workspace_elements(sizes) + 2 * sizes.extent + 1;
  return visit_float(dy.dtype, [&]<typename T>(T) -> Kernel {
    return {rows_launch<T>(request, sizes), static_cast<size_t>(elements) * sizeof(int32_t)};
  });
}

Kernel prepare_ordered_scatter(const Request& request) { return scatter_kernel(request, true); }

}  // namespace flow::cuda
