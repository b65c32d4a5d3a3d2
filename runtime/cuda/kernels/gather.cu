// gather, its gradient, scatter_add and one_hot: elements picked by indices or added up at them.
#include "runtime/base/ceil_div.h"
#include "runtime/base/convert.h"
#include "runtime/cuda/kernels/families.h"
#include "runtime/cuda/loops/check_range.cuh"
#include "runtime/cuda/loops/operands.h"

namespace flow::cuda {
namespace {

/// An array [outer, extent, inner], and how many of its extent are picked.
struct GatherSizes {
  int64_t outer, extent, inner, count;
};

GatherSizes sizes_of(const Request& request, const Shape& whole, int64_t count) {
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  return {whole.elements(0, axis), whole[axis], whole.elements(axis + 1, whole.rank()), count};
}

__global__ void check_indices(Integers indices, RangeCheck check, const CallBlock* call,
                              FaultBlock* fault) {
  check_range(indices, check, call, fault);
}

/// Stops the run where an integer of operand `i` is outside [0, limit).
Launch check_launch(const Request& request, size_t i, int64_t limit) {
  const TensorDesc& indices = request.inputs[i];
  const LaunchShape shape{{1}, {kThreads}, kThreads / kWarp * sizeof(int64_t)};
  return [=, check = add_check(request, indices, limit), dtype = indices.dtype](
             const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, "check_indices", shape, check_indices,
           Integers{buffers.inputs[i], dtype}, check, state.call, state.fault);
  };
}

/// out[o, i, k] = params[o, indices[i], k]; zero where the index is out of range. n elements.
template <typename T>
__global__ void gather_elements(Integers indices, const T* params, GatherSizes sizes, T* out,
                                int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t row = at / sizes.inner, o = row / sizes.count;
    const int64_t index = indices[row - o * sizes.count];
    const bool known = 0 <= index && index < sizes.extent;
    out[at] = known ? params[(o * sizes.extent + index) * sizes.inner + at % sizes.inner] : T{0};
  }
}

template <typename T>
Launch gather_launch(const Request& request, const GatherSizes& sizes) {
  return [=, check = check_launch(request, 1, sizes.extent), dtype = request.inputs[1].dtype,
          n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    check(buffers, state);
    launch(state.driver, state.stream, "gather", shape_for(n), gather_elements<T>,
           Integers{buffers.inputs[1], dtype}, input<T>(buffers, 0), sizes, output<T>(buffers, 0),
           n);
  };
}

/// Where each place of the extent was picked: places[begins[j]] ... places[begins[j + 1]), in
/// order.
struct Picks {
  int32_t* begins;     // [extent + 1]
  int32_t* filled;     // [extent]: places written so far
  int32_t* unordered;  // [count]: the places of each j as they came
  int32_t* places;     // [count]
};

__device__ inline bool is_within(int64_t index, const GatherSizes& sizes) {
  return 0 <= index && index < sizes.extent;
}

/// begins[j + 1] = how often j was picked. REQUIRES: begins is zero.
__global__ void count_picks(Integers indices, GatherSizes sizes, Picks picks) {
  for (int64_t i = first_index(); i < sizes.count; i += index_step())
    if (const int64_t index = indices[i]; is_within(index, sizes))
      atomicAdd(picks.begins + index + 1, 1);
}

/// Sums of all before, by one block: each thread has a stretch of its own.
__global__ void sum_picks(GatherSizes sizes, Picks picks) {
  int32_t* sums = shared<int32_t>();
  const int64_t stretch = ceil_div(sizes.extent, blockDim.x);
  const int64_t first = 1 + threadIdx.x * stretch;
  const int64_t end = first + stretch < sizes.extent + 1 ? first + stretch : sizes.extent + 1;
  int32_t own = 0;
  for (int64_t j = first; j < end; ++j) own += picks.begins[j];
  sums[threadIdx.x] = own;
  __syncthreads();
  int32_t before = 0;
  for (unsigned k = 0; k < threadIdx.x; ++k) before += sums[k];
  for (int64_t j = first; j < end; ++j) picks.begins[j] = before += picks.begins[j];
}

/// In any order, which differs from call to call. REQUIRES: filled is zero.
__global__ void write_picks(Integers indices, GatherSizes sizes, Picks picks) {
  for (int64_t i = first_index(); i < sizes.count; i += index_step())
    if (const int64_t index = indices[i]; is_within(index, sizes))
      picks.unordered[picks.begins[index] + atomicAdd(picks.filled + index, 1)] =
          static_cast<int32_t>(i);
}

/// So many places of one index are put in order by comparing each with all.
constexpr int32_t kFew = 512;

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
  int32_t* counts = shared<int32_t>();
  const int64_t stretch = ceil_div(sizes.count, blockDim.x), first = threadIdx.x * stretch;
  const int64_t end = first + stretch < sizes.count ? first + stretch : sizes.count;
  for (int64_t j = blockIdx.x; j < sizes.extent; j += gridDim.x) {
    if (picks.begins[j + 1] - picks.begins[j] <= kFew) continue;
    int32_t own = 0;
    for (int64_t i = first; i < end; ++i) own += indices[i] == j ? 1 : 0;
    __syncthreads();  // whoever reads what was shared before
    counts[threadIdx.x] = own;
    __syncthreads();
    int32_t at = picks.begins[j];
    for (unsigned k = 0; k < threadIdx.x; ++k) at += counts[k];
    for (int64_t i = first; i < end; ++i)
      if (indices[i] == j) picks.places[at++] = static_cast<int32_t>(i);
  }
}

/// out[o, j, k] = onto[o, j, k] plus all rows[o, i, k] of the places i of j, in their order.
/// Without `onto`, from zero on. n elements.
template <typename T>
__global__ void add_picks(Picks picks, const T* rows, const T* onto, GatherSizes sizes, T* out,
                          int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t row = at / sizes.inner, o = row / sizes.extent, j = row - o * sizes.extent;
    const T* from = rows + o * sizes.count * sizes.inner + at % sizes.inner;
    constexpr int kAhead = 8;  // loads that do not wait for each other
    T sum = onto ? onto[at] : T{0};
    for (int32_t p = picks.begins[j], end = picks.begins[j + 1]; p < end; p += kAhead) {
      T ahead[kAhead];
      for (int k = 0; k < kAhead; ++k)
        ahead[k] = p + k < end ? from[picks.places[p + k] * sizes.inner] : T{0};
      for (int k = 0; k < kAhead; ++k)
        if (p + k < end) sum += ahead[k];
    }
    out[at] = sum;
  }
}

/// gather_grad(indices, dy), or scatter_add(in, indices, updates). Of the former, gather has
/// checked the indices.
template <typename T>
Launch scatter_launch(const Request& request, const GatherSizes& sizes) {
  const size_t at = request.inputs.size() - 2;  // of the indices
  return [=, check = at > 0 ? check_launch(request, at, sizes.extent) : Launch(),
          dtype = request.inputs[at].dtype,
          n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    if (check) check(buffers, state);
    auto* begins = reinterpret_cast<int32_t*>(buffers.workspace);
    auto* unordered = begins + 2 * sizes.extent + 1;
    const Picks picks{begins, begins + sizes.extent + 1, unordered, unordered + sizes.count};
    const Integers indices{buffers.inputs[at], dtype};
    const auto run = [&](const char* name, const LaunchShape& shape, auto kernel,
                         const auto&... arguments) {
      launch(state.driver, state.stream, name, shape, kernel, arguments...);
    };
    state.driver.clear(begins, static_cast<size_t>(2 * sizes.extent + 1) * sizeof(int32_t),
                       state.stream);
    run("count_picks", shape_for(sizes.count), count_picks, indices, sizes, picks);
    run("sum_picks", {{1}, {kThreads}, kThreads * sizeof(int32_t)}, sum_picks, sizes, picks);
    run("write_picks", shape_for(sizes.count), write_picks, indices, sizes, picks);
    run("order_picks", shape_for(sizes.count), order_picks, indices, sizes, picks);
    if (sizes.count > kFew)
      run("order_many_picks", {{blocks_for(sizes.extent)}, {kThreads}, kThreads * sizeof(int32_t)},
          order_many_picks, indices, sizes, picks);
    run("add_picks", shape_for(n), add_picks<T>, picks, input<T>(buffers, at + 1),
        at > 0 ? input<T>(buffers, 0) : nullptr, sizes, output<T>(buffers, 0), n);
  };
}

/// out[i, k] = on where indices[i] = k, else off; n elements.
template <typename T>
__global__ void one_hot_elements(Integers indices, int64_t depth, T on, T off, T* out, int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step())
    out[at] = indices[at / depth] == at % depth ? on : off;
}

Kernel prepare_gather(const Request& request) {
  const TensorDesc& params = request.inputs[0];
  const GatherSizes sizes = sizes_of(request, params.shape, request.inputs[1].shape.elements());
  return visit_size(size_of(params.dtype),
                    [&]<typename T>(T) -> Kernel { return {gather_launch<T>(request, sizes)}; });
}

Kernel prepare_scatter(const Request& request) {
  const TensorDesc& indices = request.inputs[request.inputs.size() - 2];
  const GatherSizes sizes = sizes_of(request, request.outputs[0].shape, indices.shape.elements());
  const int64_t workspace = 2 * sizes.extent + 1 + 2 * sizes.count;
  return visit_float(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {scatter_launch<T>(request, sizes), static_cast<size_t>(workspace) * sizeof(int32_t)};
  });
}

Kernel prepare_one_hot(const Request& request) {
  const auto depth = attribute<int64_t>(request, "depth");
  return visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[depth, check = check_launch(request, 0, depth), dtype = request.inputs[0].dtype,
             on = convert<T>(attribute<double>(request, "on_value")),
             off = convert<T>(attribute<double>(request, "off_value")),
             n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      check(buffers, state);
      launch(state.driver, state.stream, "one_hot", shape_for(n), one_hot_elements<T>,
             Integers{buffers.inputs[0], dtype}, depth, on, off, output<T>(buffers, 0), n);
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::gather() {
  static constexpr KernelEntry kKernels[] = {
      {"gather", prepare_gather},
      {"gather_grad", prepare_scatter},
      {"scatter_add", prepare_scatter},
      {"one_hot", prepare_one_hot},
  };
  return kKernels;
}

}  // namespace flow::cuda
