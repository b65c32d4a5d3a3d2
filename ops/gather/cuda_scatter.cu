// gather_grad, scatter_add and the rows that gather picked: elements added up at indices, in the
// order of the indices, so that bits repeat.
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

/// Where each index of the extent was picked: places[begins[j]] ... places[begins[j + 1]), in
/// order.
struct Picks {
  int32_t* counts;      // [extent]: how often each was picked; then how many places are to come
  int32_t* many_count;  // [1]: indices with more than kFew places
  int32_t* many;        // [count / (kFew + 1)]: these indices, in any order
  int32_t* begins;      // [extent + 1]
  int32_t* unordered;   // [count]: the places of each j as they came
  int32_t* places;      // [count]
};

/// Up to this many places of one index are put in order by comparing each with all, and added up
/// by one thread.
constexpr int32_t kFew = 512;

/// REQUIRES: counts are zero.
__global__ void count_picks(Integers indices, GatherSizes sizes, Picks picks) {
  for (int64_t i = first_index(); i < sizes.count; i += index_step())
    if (const int64_t index = indices[i]; sizes.has(index)) atomicAdd(picks.counts + index, 1);
}

/// begins[j] = the sum of all counts before j. Each block has a stretch of the indices and adds up
/// all counts before it. Lists the indices with many places. REQUIRES: many_count is zero; blocks
/// have one column of threads.
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

/// So many indices are summed by one block. Each reads all counts before its own, so that there
/// are few blocks.
int64_t stretch_of_sums(int64_t extent) {
  constexpr int64_t kMostBlocks = 128;
  return round_up(ceil_div(extent, kMostBlocks), kThreads);
}

LaunchShape shape_for_sums(int64_t extent) {
  const auto blocks = static_cast<unsigned>(ceil_div(extent, stretch_of_sums(extent)));
  return {{blocks}, {1, kThreads}, kThreads * sizeof(int32_t)};
}

/// In any order, which differs from call to call.
__global__ void write_picks(Integers indices, GatherSizes sizes, Picks picks) {
  for (int64_t i = first_index(); i < sizes.count; i += index_step())
    if (const int64_t index = indices[i]; sizes.has(index))
      picks.unordered[picks.begins[index] + atomicAdd(picks.counts + index, -1) - 1] =
          static_cast<int32_t>(i);
}

/// The places of each index in order, so that sums do not depend on who came first. Each place
/// counts those of its index that come before it: adjacent threads read the same ones.
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

/// The same of indices with more: a block goes over all places, each thread over a stretch of them,
/// and writes those of the index behind what the threads before it write.
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

/// `sum` plus the elements at the places [begin, end), in their order.
template <typename T>
__device__ T add_places(const int32_t* places, int32_t begin, int32_t end, const T* elements,
                        int64_t inner, T sum) {
  constexpr int kAhead = 8;  // loads that do not wait for each other
  for (int32_t p = begin; p < end; p += kAhead) {
    T ahead[kAhead];
    for (int k = 0; k < kAhead; ++k)
      ahead[k] = p + k < end ? elements[places[p + k] * inner] : T{0};
    for (int k = 0; k < kAhead; ++k)
      if (p + k < end) sum += ahead[k];
  }
  return sum;
}

/// out[o, j, k] = onto[o, j, k] plus all rows[o, i, k] of the places i of j, in their order.
/// Without `onto`, from zero on. Indices with more than `most` places are left out. n elements.
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

/// The same of indices with many places: each thread of a column adds up a stretch of them, and
/// these sums are added in order. A block for an index and blockDim.x of its elements.
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
      __syncthreads();  // the sums before have been read
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

/// How many indices can have many places.
int64_t most_many(const GatherSizes& sizes) { return sizes.count / (kFew + 1); }

LaunchShape shape_for_many(const GatherSizes& sizes, size_t element_bytes) {
  constexpr int64_t kMostInY = 65535;  // CUDA's limit of a grid in y
  return {{blocks_for(ceil_div<int64_t>(sizes.outer * sizes.inner, kWarp)),
           static_cast<unsigned>(std::min(most_many(sizes), kMostInY))},
          {kWarp, kThreads / kWarp},
          kThreads * element_bytes};
}

int64_t workspace_elements(const GatherSizes& sizes) {
  return 2 * sizes.extent + 2 + most_many(sizes) + 2 * sizes.count;
}

/// `memory` has workspace_elements.
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

/// Counts the places of each index, and finds where they begin.
void count_places(const Integers& indices, const GatherSizes& sizes, const Picks& picks,
                  const LaunchState& state) {
  // many_count lies behind the counts.
  state.driver.clear(picks.counts, static_cast<size_t>(sizes.extent + 1) * sizeof(int32_t),
                     state.stream);
  launch(state, "count_picks", shape_for(sizes.count), count_picks, indices, sizes, picks);
  launch(state, "sum_counts", shape_for_sums(sizes.extent), sum_counts, sizes,
         stretch_of_sums(sizes.extent), picks);
}

/// Finds the places of each index, in order.
void order_places(const Integers& indices, const GatherSizes& sizes, const Picks& picks,
                  const LaunchState& state) {
  launch(state, "write_picks", shape_for(sizes.count), write_picks, indices, sizes, picks);
  launch(state, "order_picks", shape_for(sizes.count), order_picks, indices, sizes, picks);
  if (const int64_t many = most_many(sizes); many > 0)
    launch(state, "order_many_picks",
           {{blocks_for(many)}, {1, kThreads}, kThreads * sizeof(int32_t)}, order_many_picks,
           indices, sizes, picks);
}

/// gather_grad(indices, dy), or scatter_add(in, indices, updates). Of the former, gather has
/// checked the indices. `in_order`: rows of an index are added one after another, however many.
template <typename T>
Launch scatter_launch(const Request& request, const GatherSizes& sizes, bool in_order) {
  const size_t at = request.inputs.size() - 2;  // of the indices
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

/// Which indices were picked at all, as counts, and how many of them come before each.
__global__ void find_picked(Picks picks, GatherSizes sizes, int32_t* picked) {
  for (int64_t j = first_index(); j < sizes.extent; j += index_step())
    picked[j] = picks.counts[j] > 0 ? 1 : 0;
}

/// rows[r, :] = all dy[i, :] of the places i of index number r, in their order; numbers[j] of them
/// come before index j. Behind the last one: rows of zero, and the index -1. n elements. The first
/// place of an index makes its row.
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
    Picks numbers{};  // of indices that were picked: each once
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

/// Its workspace is that of gather_grad, and the numbers of indices.
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
