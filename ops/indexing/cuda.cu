// Elements picked, written and added up along an axis, each by an index of its own. Updates of an
// element are done in the order of the indices: a thread does all of a column. Integers, whose sums
// have no order, and vectors have kernels that share out a column.
#include "ops/binary/binary.h"
#include "ops/gather/cuda.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// x [outer, extent, inner], indices [outer, count, inner].
struct AlongAxis {
  int64_t outer, extent, inner, count;
};

AlongAxis sizes_along(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  return {x.elements(0, axis), x[axis], x.elements(axis + 1, x.rank()),
          request.inputs[1].shape[axis]};
}

__global__ void check_along_axis(Integers indices, RangeCheck check, const CallBlock* call,
                                 FaultBlock* fault) {
  check_range(indices, check, call, fault);
}

/// Stops the run where an index is outside [0, extent).
Launch along_axis_check(const Request& request, int64_t extent) {
  const TensorDesc& indices = request.inputs[1];
  const LaunchShape shape{{1}, {kThreads}, kThreads / kWarp * sizeof(int64_t)};
  return [=, check = add_check(request, indices, extent), dtype = indices.dtype](
             const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, "check_indices", shape, check_along_axis,
           Integers{buffers.inputs[1], dtype}, check, state.call, state.fault);
  };
}

/// Zero where the index is out of range; n elements.
template <typename T>
__global__ void take_elements(Integers indices, const T* x, AlongAxis sizes, T* y, int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t index = indices[at], o = at / (sizes.count * sizes.inner);
    const bool known = 0 <= index && index < sizes.extent;
    y[at] = known ? x[(o * sizes.extent + index) * sizes.inner + at % sizes.inner] : T{0};
  }
}

struct PutElement {
  template <typename T>
  __device__ T operator()(T, T update) const {
    return update;
  }
};

/// y[o, indices[o, i, k], k] = f(that, updates[o, i, k]) for each i in order; leaves out indices
/// out of range.
template <typename T, typename F>
__global__ void update_columns(Integers indices, const T* updates, AlongAxis sizes, T* y, F f) {
  const int64_t columns = sizes.outer * sizes.inner;
  for (int64_t column = first_index(); column < columns; column += index_step()) {
    const int64_t o = column / sizes.inner, k = column - o * sizes.inner;
    for (int64_t i = 0; i < sizes.count; ++i) {
      const int64_t at = (o * sizes.count + i) * sizes.inner + k, index = indices[at];
      if (index < 0 || index >= sizes.extent) continue;
      T& element = y[(o * sizes.extent + index) * sizes.inner + k];
      element = f(element, updates[at]);
    }
  }
}

template <typename T, typename F>
Kernel updating(const char* name, const Request& request, F f) {
  const AlongAxis sizes = sizes_along(request);
  return {[=, check = along_axis_check(request, sizes.extent), dtype = request.inputs[1].dtype,
           bytes = static_cast<size_t>(result_elements(request)) * sizeof(T)](
              const Buffers& buffers, const LaunchState& state) {
    check(buffers, state);
    if (buffers.outputs[0] != buffers.inputs[0])
      state.driver.copy(buffers.outputs[0], buffers.inputs[0], bytes, state.stream);
    launch(state.driver, state.stream, name, shape_for(sizes.outer * sizes.inner),
           update_columns<T, F>, Integers{buffers.inputs[1], dtype}, input<T>(buffers, 2), sizes,
           output<T>(buffers, 0), f);
  }};
}

/// Adds updates in any order. REQUIRES: y has x; n updates.
template <typename T>
__global__ void add_integers(Integers indices, const T* updates, AlongAxis sizes, T* y, int64_t n) {
  for (int64_t at = first_index(); at < n; at += index_step()) {
    const int64_t index = indices[at], o = at / (sizes.count * sizes.inner);
    if (0 <= index && index < sizes.extent)
      atomicAdd(y + (o * sizes.extent + index) * sizes.inner + at % sizes.inner, updates[at]);
  }
}

/// T: unsigned, of 32 or 64 bits, which wrap around as signed ones do.
template <typename T>
Kernel adding_integers(const Request& request) {
  const AlongAxis sizes = sizes_along(request);
  return {[=, check = along_axis_check(request, sizes.extent), dtype = request.inputs[1].dtype,
           n = request.inputs[1].shape.elements(),
           bytes = static_cast<size_t>(result_elements(request)) * sizeof(T)](
              const Buffers& buffers, const LaunchState& state) {
    check(buffers, state);
    if (buffers.outputs[0] != buffers.inputs[0])
      state.driver.copy(buffers.outputs[0], buffers.inputs[0], bytes, state.stream);
    launch(state.driver, state.stream, "add_along_axis", shape_for(n), add_integers<T>,
           Integers{buffers.inputs[1], dtype}, input<T>(buffers, 2), sizes, output<T>(buffers, 0),
           n);
  }};
}

Kernel prepare_take_along_axis(const Request& request) {
  const AlongAxis sizes = sizes_along(request);
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    return {[=, check = along_axis_check(request, sizes.extent), dtype = request.inputs[1].dtype,
             n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      check(buffers, state);
      launch(state.driver, state.stream, "take_along_axis", shape_for(n), take_elements<T>,
             Integers{buffers.inputs[1], dtype}, input<T>(buffers, 0), sizes, output<T>(buffers, 0),
             n);
    }};
  });
}

Kernel prepare_put_along_axis(const Request& request) {
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) {
    return updating<T>("put_along_axis", request, PutElement{});
  });
}

Kernel prepare_add_along_axis(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::kInt64) return adding_integers<unsigned long long>(request);
  if (dtype == DType::kInt32) return adding_integers<unsigned>(request);
  const int64_t most = std::max(result_elements(request), request.inputs[1].shape.elements());
  if (is_float(dtype) && request.inputs[0].shape.rank() == 1 && most < kNarrow)
    return prepare_ordered_scatter(request);
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    return updating<T>("add_along_axis", request, functions::Add<T>{});
  });
}

}  // namespace

std::span<const KernelEntry> kernels::indexing() {
  static constexpr KernelEntry kKernels[] = {
      {"take_along_axis", prepare_take_along_axis},
      {"put_along_axis", prepare_put_along_axis},
      {"add_along_axis", prepare_add_along_axis},
  };
  return kKernels;
}

}  // namespace flow::cuda
