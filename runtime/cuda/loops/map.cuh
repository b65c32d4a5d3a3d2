// Elementwise kernels: flat ones that process 16 bytes at a time, and ones for operands that
// broadcast. A result may exactly alias an operand. Also copies elements between an array and a
// part of another array, and converts them if the dtypes differ; otherwise there is one kernel for
// each element size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {

/// The elements that one instruction loads. Buffers are aligned accordingly.
template <typename T>
struct alignas(16) Vector {
  static constexpr int kCount = 16 / sizeof(T);
  T values[kCount];
};

template <typename T, typename F, typename... X>
__device__ Vector<T> map_vector(F f, Vector<X>... x) {
  Vector<T> y;
  for (int k = 0; k < Vector<T>::kCount; ++k) y.values[k] = f(x.values[k]...);
  return y;
}

/// y[i] = f(x[i]...) for i < n.
template <typename T, typename F, typename... X>
__global__ void map_flat(T* y, int64_t n, F f, const X*... x) {
  const int64_t vectors = n / Vector<T>::kCount;
  for (int64_t i = first_index(); i < vectors; i += index_step())
    reinterpret_cast<Vector<T>*>(y)[i] =
        map_vector<T>(f, reinterpret_cast<const Vector<X>*>(x)[i]...);
  for (int64_t i = vectors * Vector<T>::kCount + first_index(); i < n; i += index_step())
    y[i] = f(x[i]...);
}

/// y[i] = f(x[i]) as a bool, for i < n.
template <typename T, typename F>
__global__ void test_flat(const T* x, bool* y, int64_t n, F f) {
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] = f(x[i]);
}

/// y[i] = f(x[loops(i)]...) for i < n.
template <typename R, typename F, typename... X>
__global__ void map_broadcast(Loops<sizeof...(X)> loops, R* y, int64_t n, F f, const X*... x) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const auto at = loops.at(i);
    y[i] = [&]<size_t... K>(std::index_sequence<K...>) { return f(x[at.of[K]]...); }
    (std::index_sequence_for<X...>());
  }
}

/// Returns a grid for map_flat.
template <typename T>
LaunchShape shape_for_vectors(int64_t n) {
  return shape_for(ceil_div(n, Vector<T>::kCount));
}

template <size_t, typename T>
using Same = T;

/// y = f(x...). All operands have the shape and the dtype of y.
template <typename T, typename F, size_t... K>
Launch flat_launch(const char* name, const Request& request, F f, std::index_sequence<K...>) {
  return [=, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for_vectors<T>(n), map_flat<T, F, Same<K, T>...>,
           output<T>(buffers, 0), n, f, input<T>(buffers, K)...);
  };
}

/// y = f(x).
template <typename T, typename F>
Launch map_launch(const char* name, const Request& request, F f) {
  return flat_launch<T>(name, request, f, std::make_index_sequence<1>());
}

/// y = f(x) as bools.
template <typename T, typename F>
Launch test_launch(const char* name, const Request& request, F f) {
  return [=, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for(n), test_flat<T, F>, input<T>(buffers, 0),
           output<bool>(buffers, 0), n, f);
  };
}

/// y = f(a, b) for operands of equal shapes.
template <typename T, typename F>
Launch map_pairs_launch(const char* name, const Request& request, F f) {
  return flat_launch<T>(name, request, f, std::make_index_sequence<2>());
}

/// y = f(x...) for shapes that broadcast. R is the result's element type and X are the operands'
/// element types.
template <typename R, typename... X, typename F>
Launch broadcast_launch(const char* name, const Request& request, F f) {
  return [&]<size_t... K>(std::index_sequence<K...>)->Launch {
    const auto loops =
        broadcast_loops<sizeof...(X)>({request.inputs[K].shape...}, request.outputs[0].shape);
    return [=, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, name, shape_for(n), map_broadcast<R, F, X...>, loops,
             output<R>(buffers, 0), n, f, input<X>(buffers, K)...);
    };
  }
  (std::index_sequence_for<X...>());
}

/// y = f(a, b) for shapes that broadcast.
template <typename T, typename F>
Launch map_broadcast_launch(const char* name, const Request& request, F f) {
  return request.inputs[0].shape == request.inputs[1].shape
             ? map_pairs_launch<T>(name, request, f)
             : broadcast_launch<T, T, T>(name, request, f);
}

/// to[loops] = from[loops] for n elements. The loops run over `from`, then over `to`.
template <typename From, typename To>
__global__ void copy_strided(Loops<2> loops, const From* from, To* to, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Offsets<2> at = loops.at(i);
    to[at.of[1]] = convert<To>(from[at.of[0]]);
  }
}

template <typename From, typename To>
void launch_copy(const LaunchState& state, const char* name, const Loops<2>& loops,
                 const From* from, To* to) {
  const int64_t n = loops.elements();
  launch(state.driver, state.stream, name, shape_for(n), copy_strided<From, To>, loops, from, to,
         n);
}

/// A part of an array: the loops over the part and the offset at which it begins in the whole
/// array.
struct ArrayPart {
  Loops<2> loops;
  int64_t begin;
};

}  // namespace flow::cuda
