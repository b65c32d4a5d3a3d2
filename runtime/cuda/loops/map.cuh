// Elementwise kernels: flat ones, 16 bytes at a time, and ones over operands that broadcast.
// Results may lie exactly on an operand.
#pragma once

#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {

/// What one instruction loads. Buffers are aligned for it.
template <typename T>
struct alignas(16) Vector {
  static constexpr int kCount = 16 / sizeof(T);
  T values[kCount];
};

/// y[i] = f(x[i]), i < n
template <typename T, typename F>
__global__ void map_flat(const T* x, T* y, int64_t n, F f) {
  const int64_t vectors = n / Vector<T>::kCount;
  for (int64_t i = first_index(); i < vectors; i += index_step()) {
    Vector<T> v = reinterpret_cast<const Vector<T>*>(x)[i];
    for_elements<Vector<T>::kCount>([&](int k) { v.values[k] = f(v.values[k]); });
    reinterpret_cast<Vector<T>*>(y)[i] = v;
  }
  for (int64_t i = vectors * Vector<T>::kCount + first_index(); i < n; i += index_step())
    y[i] = f(x[i]);
}

/// y[i] = f(x[i]) as a bool, i < n
template <typename T, typename F>
__global__ void test_flat(const T* x, bool* y, int64_t n, F f) {
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] = f(x[i]);
}

/// out[i] = f(a[i], b[i]), i < n
template <typename T, typename F>
__global__ void map_flat_pairs(const T* a, const T* b, T* out, int64_t n, F f) {
  const int64_t vectors = n / Vector<T>::kCount;
  for (int64_t i = first_index(); i < vectors; i += index_step()) {
    Vector<T> v = reinterpret_cast<const Vector<T>*>(a)[i];
    const Vector<T> w = reinterpret_cast<const Vector<T>*>(b)[i];
    for (int k = 0; k < Vector<T>::kCount; ++k) v.values[k] = f(v.values[k], w.values[k]);
    reinterpret_cast<Vector<T>*>(out)[i] = v;
  }
  for (int64_t i = vectors * Vector<T>::kCount + first_index(); i < n; i += index_step())
    out[i] = f(a[i], b[i]);
}

/// out[i] = f(a[i], b[i], c[i]), i < n
template <typename T, typename F>
__global__ void map_flat_triples(const T* a, const T* b, const T* c, T* out, int64_t n, F f) {
  const int64_t vectors = n / Vector<T>::kCount;
  for (int64_t i = first_index(); i < vectors; i += index_step()) {
    Vector<T> v = reinterpret_cast<const Vector<T>*>(a)[i];
    const Vector<T> w = reinterpret_cast<const Vector<T>*>(b)[i];
    const Vector<T> u = reinterpret_cast<const Vector<T>*>(c)[i];
    for (int k = 0; k < Vector<T>::kCount; ++k)
      v.values[k] = f(v.values[k], w.values[k], u.values[k]);
    reinterpret_cast<Vector<T>*>(out)[i] = v;
  }
  for (int64_t i = vectors * Vector<T>::kCount + first_index(); i < n; i += index_step())
    out[i] = f(a[i], b[i], c[i]);
}

/// out[i] = f(a[loops(i)], b[loops(i)]), i < n
template <typename T, typename R, typename F>
__global__ void map_pairs(Loops<2> loops, const T* a, const T* b, R* out, int64_t n, F f) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Offsets<2> at = loops.at(i);
    out[i] = f(a[at.of[0]], b[at.of[1]]);
  }
}

/// out[i] = f(a[loops(i)], b[loops(i)], c[loops(i)]), i < n
template <typename A, typename T, typename F>
__global__ void map_triples(Loops<3> loops, const A* a, const T* b, const T* c, T* out, int64_t n,
                            F f) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Offsets<3> at = loops.at(i);
    out[i] = f(a[at.of[0]], b[at.of[1]], c[at.of[2]]);
  }
}

/// A grid for the flat kernels.
template <typename T>
LaunchShape shape_for_vectors(int64_t n) {
  return shape_for(ceil_div(n, Vector<T>::kCount));
}

/// y = f(x)
template <typename T, typename F>
Launch map_launch(const char* name, const Request& request, F f) {
  return [=, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for_vectors<T>(n), map_flat<T, F>,
           input<T>(buffers, 0), output<T>(buffers, 0), n, f);
  };
}

/// y = f(x), bools
template <typename T, typename F>
Launch test_launch(const char* name, const Request& request, F f) {
  return [=, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for(n), test_flat<T, F>, input<T>(buffers, 0),
           output<bool>(buffers, 0), n, f);
  };
}

/// out = f(a, b), of equal shapes
template <typename T, typename F>
Launch map_pairs_launch(const char* name, const Request& request, F f) {
  return [=, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for_vectors<T>(n), map_flat_pairs<T, F>,
           input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0), n, f);
  };
}

/// out = f(a, b), of shapes that broadcast
template <typename T, typename F>
Launch map_broadcast_launch(const char* name, const Request& request, F f) {
  const Shape &a = request.inputs[0].shape, &b = request.inputs[1].shape;
  if (a == b) return map_pairs_launch<T>(name, request, f);
  return [=, loops = broadcast_loops<2>({a, b}, request.outputs[0].shape),
          n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for(n), map_pairs<T, T, F>, loops,
           input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0), n, f);
  };
}

/// out = f(a, b, c), of shapes that broadcast
template <typename A, typename T, typename F>
Launch map_triples_launch(const char* name, const Request& request, F f) {
  const auto& in = request.inputs;
  return [=,
          loops =
              broadcast_loops<3>({in[0].shape, in[1].shape, in[2].shape}, request.outputs[0].shape),
          n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for(n), map_triples<A, T, F>, loops,
           input<A>(buffers, 0), input<T>(buffers, 1), input<T>(buffers, 2), output<T>(buffers, 0),
           n, f);
  };
}

}  // namespace flow::cuda
