// Elementwise kernels: flat ones, 16 bytes at a time, and ones over operands that broadcast.
// Results may lie exactly on an operand.
#pragma once

#include "runtime/cuda/loops.h"
#include "runtime/cuda/threads.cuh"

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
    for (T& value : v.values) value = f(value);
    reinterpret_cast<Vector<T>*>(y)[i] = v;
  }
  for (int64_t i = vectors * Vector<T>::kCount + first_index(); i < n; i += index_step())
    y[i] = f(x[i]);
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

/// out[i] = f(a[loops(i)], b[loops(i)]), i < n
template <typename T, typename R, typename F>
__global__ void map_pairs(Loops<2> loops, const T* a, const T* b, R* out, int64_t n, F f) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Offsets<2> at = loops.at(i);
    out[i] = f(a[at.of[0]], b[at.of[1]]);
  }
}

/// A grid for the flat kernels.
template <typename T>
LaunchShape shape_for_vectors(int64_t n) {
  return shape_for((n + Vector<T>::kCount - 1) / Vector<T>::kCount);
}

/// a + b; integers wrap around, as NumPy's do.
struct Add {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
};

}  // namespace flow::cuda
