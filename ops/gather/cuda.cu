// CUDA kernels of gather, scatter_update and one_hot, which read or write elements by index.
#include "ops/core/cuda_launch.cuh"
#include "ops/gather/cuda.h"
#include "ops/gather/problem.h"
#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {
namespace {

/// Computes n elements out[o, i, k] = params[o, indices[i], k], or zero if the index is out of
/// range.
template <typename T>
__global__ void gather_elements(Integers indices, const T* params, GatherSizes sizes, T* out,
                                int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t row = at / sizes.inner, o = row / sizes.count;
    const int64_t index = indices[row - o * sizes.count];
    out[at] = sizes.has(index) ? params[(o * sizes.extent + index) * sizes.inner + at % sizes.inner]
                               : T{0};
  }
}

template <typename T>
Launch gather_launch(const Request& request, const GatherSizes& sizes) {
  return [=, check = check_launch(request, 1, sizes.extent), dtype = request.inputs[1].dtype,
          n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    check(buffers, state);
    launch(state, "gather", shape_for(n), gather_elements<T>, Integers{buffers.inputs[1], dtype},
           input<T>(buffers, 0), sizes, output<T>(buffers, 0), n);
  };
}

using LastPlace = unsigned long long;  // a type for which CUDA has an atomic maximum

/// Sets last[j] to one plus the last place of j among the indices; it stays 0 if j is not an index.
/// REQUIRES: `last` contains zeros.
__global__ void find_last(Integers indices, GatherSizes sizes, LastPlace* last) {
  for (int64_t i = first_index(); i < sizes.count; i += index_step())
    if (const int64_t index = indices[i]; sizes.has(index))
      atomicMax(last + index, static_cast<LastPlace>(i) + 1);
}

/// Computes n elements y[o, j, k] = rows[o, last[j] - 1, k], or x[o, j, k] if last[j] is 0. `y` may
/// alias `x`.
template <typename T>
__global__ void put_last(const LastPlace* last, const T* x, const T* rows, GatherSizes sizes, T* y,
                         int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t row = at / sizes.inner, o = row / sizes.extent;
    const auto place = static_cast<int64_t>(last[row - o * sizes.extent]);
    y[at] =
        place == 0 ? x[at] : rows[(o * sizes.count + place - 1) * sizes.inner + at % sizes.inner];
  }
}

/// Computes n elements out[i, k] = `on` if indices[i] = k, else `off`.
template <typename T>
__global__ void one_hot_elements(Integers indices, int64_t depth, T on, T off, T* out, int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step())
    out[at] = indices[at / depth] == at % depth ? on : off;
}

Kernel prepare_gather(const Request& request) {
  const TensorDesc& params = request.inputs[0];
  const GatherSizes sizes =
      GatherSizes::of(request.step.attributes, params.shape, request.inputs[1].shape);
  return visit_size(size_of(params.dtype),
                    [&]<typename T>(T) -> Kernel { return {gather_launch<T>(request, sizes)}; });
}

Kernel prepare_scatter_update(const Request& request) {
  const TensorDesc& indices = request.inputs[1];
  const GatherSizes sizes =
      GatherSizes::of(request.step.attributes, request.outputs[0].shape, indices.shape);
  const size_t workspace = static_cast<size_t>(sizes.extent) * sizeof(LastPlace);
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    return {[=, check = check_launch(request, 1, sizes.extent), dtype = indices.dtype,
             n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
              check(buffers, state);
              auto* last = reinterpret_cast<LastPlace*>(buffers.workspace);
              state.driver.clear(last, workspace, state.stream);
              launch(state, "find_last", shape_for(sizes.count), find_last,
                     Integers{buffers.inputs[1], dtype}, sizes, last);
              launch(state, "scatter_update", shape_for(n), put_last<T>,
                     static_cast<const LastPlace*>(last), input<T>(buffers, 0),
                     input<T>(buffers, 2), sizes, output<T>(buffers, 0), n);
            },
            workspace};
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
      launch(state, "one_hot", shape_for(n), one_hot_elements<T>,
             Integers{buffers.inputs[0], dtype}, depth, on, off, output<T>(buffers, 0), n);
    }};
  });
}

}  // namespace

Launch check_launch(const Request& request, size_t i, int64_t limit) {
  const TensorDesc& indices = request.inputs[i];
  return [i, check = add_check(request, indices, limit), dtype = indices.dtype](
             const Buffers& buffers, const LaunchState& state) {
    launch_check(state, "check_indices", Integers{buffers.inputs[i], dtype}, check);
  };
}

std::span<const KernelEntry> kernels::gather() {
  static constexpr KernelEntry kKernels[] = {
      {"gather", prepare_gather},
      {"gather_grad", prepare_scatter, Order::kOwn},
      {"sparse_gather_grad", prepare_sparse_gather_grad},
      {"scatter_add", prepare_scatter, Order::kOwn},
      {"scatter_update", prepare_scatter_update},
      {"one_hot", prepare_one_hot},
  };
  return kKernels;
}

}  // namespace flow::cuda
