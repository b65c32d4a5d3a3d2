// bag_indices: marks the indices of bags that count. bag_sum and bag_max: the sum or the maximum of
// rows of a table, in the order of the indices in a bag, with one thread per element of the result.
#include "ops/core/cuda_launch.cuh"
#include "ops/embedding_bag/problem.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {
namespace {

/// Bags with `count` indices each.
struct BagMarks {
  Integers indices, lengths;
  int64_t count;
  bool has_lengths, has_padding;
  int64_t padding;

  /// Returns true if index i of the array counts.
  __device__ bool counts(int64_t i) const {
    const bool in_bag = !has_lengths || i % count < lengths[i / count];
    return in_bag && !(has_padding && indices[i] == padding);
  }
};

__global__ void mark_bags(BagMarks marks, int64_t* marked, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step())
    marked[i] = marks.counts(i) ? marks.indices[i] : -1;
}

/// Records the first index that counts and is out of range.
__global__ void check_bags(BagMarks marks, RangeCheck check, const CallBlock* call,
                           FaultBlock* fault) {
  int64_t first = check.count;
  for (int64_t i = threadIdx.x; i < check.count && first == check.count; i += blockDim.x) {
    const int64_t index = marks.indices[i];
    if (marks.counts(i) && (index < 0 || index >= check.limit)) first = i;
  }
  report_first(first, marks.indices, check, call, fault);
}

Kernel prepare_bag_indices(const Request& request) {
  const TensorDesc& indices = request.inputs[0];
  const bool has_lengths = request.inputs.size() > 1;
  const bool has_padding = request.step.attributes.has("padding");
  const int64_t padding = has_padding ? attribute<int64_t>(request, "padding") : 0;
  const int64_t count = indices.shape[indices.shape.rank() - 1];
  RangeCheck of_lengths{};
  if (has_lengths) of_lengths = add_check(request, request.inputs[1], count + 1);
  const RangeCheck of_indices = add_check(request, indices, attribute<int64_t>(request, "extent"));
  const DType dtype = indices.dtype,
              length_dtype = has_lengths ? request.inputs[1].dtype : DType::kInt64;
  return {[=, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    const LaunchShape block{{1}, {kThreads}, kThreads / kWarp * sizeof(int64_t)};
    const Integers lengths{has_lengths ? buffers.inputs[1] : nullptr, length_dtype};
    const BagMarks marks{
        {buffers.inputs[0], dtype}, lengths, count, has_lengths, has_padding, padding};
    if (has_lengths) launch_check(state, "check_bag_lengths", lengths, of_lengths);
    launch(state, "check_bags", block, check_bags, marks, of_indices, state.call, state.fault);
    launch(state, "bag_indices", shape_for(n), mark_bags, marks, output<int64_t>(buffers, 0), n);
  }};
}

/// Sets out[bag, k] to the sum of weights[bag, i] params[indices[bag, i], k] for all n elements.
/// Without weights, each weight is 1.
template <typename T>
__global__ void add_bags(const T* params, Integers indices, const T* weights, BagSizes sizes,
                         T* out, int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t bag = at / sizes.units, first = bag * sizes.count;
    const T* column = params + (at - bag * sizes.units);
    T sum{0};
    for (int64_t i = first; i < first + sizes.count; ++i) {
      const int64_t row = indices[i];
      if (row >= 0 && row < sizes.rows)
        sum += (weights ? weights[i] : T{1}) * column[row * sizes.units];
    }
    out[at] = sum;
  }
}

/// Sets out[bag, k] to the largest params[indices[bag, i], k] and places[bag, k] to the first i
/// that has it, for all n elements. `places` may be null.
template <typename T>
__global__ void take_largest(const T* params, Integers indices, BagSizes sizes, T* out,
                             int64_t* places, int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t bag = at / sizes.units;
    const T* column = params + (at - bag * sizes.units);
    Best<T> best{T{0}, -1};
    for (int64_t i = 0; i < sizes.count; ++i) {
      const int64_t row = indices[bag * sizes.count + i];
      if (row < 0 || row >= sizes.rows) continue;
      const T value = column[row * sizes.units];
      if (best.place < 0 || exceeds(value, best.value)) best = {value, i};
    }
    out[at] = best.value;
    if (places) places[at] = best.place;
  }
}

Kernel prepare_bag_sum(const Request& request) {
  return visit_float(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[sizes = BagSizes(request.inputs[0].shape, request.inputs[1].shape),
             dtype = request.inputs[1].dtype, weighted = request.inputs.size() > 2,
             n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      launch(state, "bag_sum", shape_for(n), add_bags<T>, input<T>(buffers, 0),
             Integers{buffers.inputs[1], dtype}, weighted ? input<T>(buffers, 2) : nullptr, sizes,
             output<T>(buffers, 0), n);
    }};
  });
}

Kernel prepare_bag_max(const Request& request) {
  return visit_float(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[sizes = BagSizes(request.inputs[0].shape, request.inputs[1].shape),
             dtype = request.inputs[1].dtype,
             wants_places = request.outputs.size() > 1 && request.outputs[1].used,
             n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      launch(state, "bag_max", shape_for(n), take_largest<T>, input<T>(buffers, 0),
             Integers{buffers.inputs[1], dtype}, sizes, output<T>(buffers, 0),
             wants_places ? output<int64_t>(buffers, 1) : nullptr, n);
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::embedding_bag() {
  static constexpr KernelEntry kKernels[] = {
      {"bag_indices", prepare_bag_indices},
      {"bag_sum", prepare_bag_sum},
      {"bag_max", prepare_bag_max},
  };
  return kKernels;
}

}  // namespace flow::cuda
