// CUDA kernels that take, replace or add to elements along an axis, each by a separate index. One
// thread applies all updates of a column in the order of the indices. Integers, whose sums do not
// depend on the order, and one-dimensional operands use kernels that split a column among threads.
#include "ops/binary/binary.h"
#include "ops/core/along_axis.h"
#include "ops/core/spec.h"
#include "ops/gather/cuda.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/loops.h"

namespace flow::cuda {
namespace {

/// Returns the sizes of x and of the elements that the indices pick.
ops::PickedAlongAxis sizes_along(const Request& request) {
  return {request.inputs[0].shape, request.inputs[1].shape, request.step.attributes};
}

__global__ void check_along_axis(Integers indices, RangeCheck check, const CallBlock* call,
                                 FaultBlock* fault) {
  check_range(indices, check, call, fault);
}

/// Returns a kernel that stops the run if an index is outside [0, n), and then calls
/// update(buffers, state, indices).
template <typename Update>
Kernel with_indices(const Request& request, Update update) {
  const TensorDesc& indices = request.inputs[1];
  const LaunchShape shape{{1}, {kThreads}, kThreads / kWarp * sizeof(int64_t)};
  return {[=, check = add_check(request, indices, sizes_along(request).n), dtype = indices.dtype](
              const Buffers& buffers, const LaunchState& state) {
    const Integers places{buffers.inputs[1], dtype};
    launch(state, "check_indices", shape, check_along_axis, places, check, state.call, state.fault);
    update(buffers, state, places);
  }};
}

/// Does the same as with_indices for an update of the elements of operand 0, which are first copied
/// to the result unless both are the same buffer.
template <typename Update>
Kernel with_updates(const Request& request, Update update) {
  const size_t bytes = bytes_of(request.outputs[0].shape, request.outputs[0].dtype);
  return with_indices(
      request, [=](const Buffers& buffers, const LaunchState& state, const Integers& indices) {
        if (buffers.outputs[0] != buffers.inputs[0])
          state.driver.copy(buffers.outputs[0], buffers.inputs[0], bytes, state.stream);
        update(buffers, state, indices);
      });
}

/// Takes elements. Writes zero for an index that is out of range.
template <typename T>
__global__ void take_elements(Integers indices, const T* x, ops::PickedAlongAxis sizes, T* y) {
  for (int64_t at = first_index(); at < sizes.picked(); at += index_step()) {
    const int64_t index = indices[at];
    y[at] = 0 <= index && index < sizes.n ? x[sizes.source(at, index)] : T{0};
  }
}

struct PutElement {
  template <typename T>
  __device__ T operator()(T, T update) const {
    return update;
  }
};

/// Sets the element y[o, indices[o, i, k], k] to f(element, updates[o, i, k]) for each i in order.
/// Skips indices that are out of range.
template <typename T, typename F>
__global__ void update_columns(Integers indices, const T* updates, ops::PickedAlongAxis sizes, T* y,
                               F f) {
  for (int64_t c = first_index(); c < sizes.columns(); c += index_step()) {
    const int64_t first = sizes.picked_start(c), start = sizes.start(c);
    for (int64_t i = 0; i < sizes.count; ++i) {
      const int64_t at = first + i * sizes.inner, index = indices[at];
      if (index < 0 || index >= sizes.n) continue;
      T& element = y[start + index * sizes.inner];
      element = f(element, updates[at]);
    }
  }
}

template <typename T, typename F>
Kernel updating(const Request& request, F f) {
  return with_updates(
      request, [=, sizes = sizes_along(request), name = request.step.op->name.data()](
                   const Buffers& buffers, const LaunchState& state, const Integers& indices) {
        launch(state, name, shape_for(sizes.columns()), update_columns<T, F>, indices,
               input<T>(buffers, 2), sizes, output<T>(buffers, 0), f);
      });
}

/// Adds updates in any order. REQUIRES: y contains a copy of x.
template <typename T>
__global__ void add_integers(Integers indices, const T* updates, ops::PickedAlongAxis sizes, T* y) {
  for (int64_t at = first_index(); at < sizes.picked(); at += index_step()) {
    const int64_t index = indices[at];
    if (0 <= index && index < sizes.n) atomicAdd(y + sizes.source(at, index), updates[at]);
  }
}

/// Returns a kernel that adds integers. T is an unsigned type of 32 or 64 bits, whose sums wrap
/// around like those of signed integers.
template <typename T>
Kernel adding_integers(const Request& request) {
  return with_updates(
      request, [sizes = sizes_along(request)](const Buffers& buffers, const LaunchState& state,
                                              const Integers& indices) {
        launch(state, "add_along_axis", shape_for(sizes.picked()), add_integers<T>, indices,
               input<T>(buffers, 2), sizes, output<T>(buffers, 0));
      });
}

Kernel prepare_take_along_axis(const Request& request) {
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) {
    return with_indices(
        request, [sizes = sizes_along(request)](const Buffers& buffers, const LaunchState& state,
                                                const Integers& indices) {
          launch(state, "take_along_axis", shape_for(sizes.picked()), take_elements<T>, indices,
                 input<T>(buffers, 0), sizes, output<T>(buffers, 0));
        });
  });
}

Kernel prepare_put_along_axis(const Request& request) {
  return visit_size(size_of(request.inputs[0].dtype),
                    [&]<typename T>(T) { return updating<T>(request, PutElement{}); });
}

Kernel prepare_add_along_axis(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::kInt64) return adding_integers<unsigned long long>(request);
  if (dtype == DType::kInt32) return adding_integers<unsigned>(request);
  const int64_t most = std::max(result_elements(request), request.inputs[1].shape.elements());
  if (is_float(dtype) && request.inputs[0].shape.rank() == 1 && most < kNarrow)
    return prepare_ordered_scatter(request);
  return visit_number(dtype,
                      [&]<typename T>(T) { return updating<T>(request, functions::Add<T>{}); });
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
