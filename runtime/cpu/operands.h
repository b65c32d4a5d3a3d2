// Typed pointers to a launch's buffers, the C++ type of a dtype for templates over elements, and
// flat loops in pieces.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/check.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/parallel.h"

namespace flow::cpu {

template <typename T>
const T* input(const Buffers& buffers, size_t i) {
  return reinterpret_cast<const T*>(buffers.inputs[i]);
}

template <typename T>
T* output(const Buffers& buffers, size_t i) {
  return reinterpret_cast<T*>(buffers.outputs[i]);
}

/// Calls f with a zero of the C++ type of `dtype`, float or double, and returns what it does.
template <typename F>
auto visit_float(DType dtype, F f) {
  if (dtype == DType::kFloat64) return f(double{});
  FLOW_CHECK(dtype == DType::kFloat32, "{} is no float here", name_of(dtype));
  return f(float{});
}

/// The same for an integer dtype.
template <typename F>
auto visit_integer(DType dtype, F f) {
  switch (dtype) {
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    default:
      FLOW_CHECK(dtype == DType::kUInt8, "{} is no integer", name_of(dtype));
      return f(uint8_t{});
  }
}

/// The same for float32, float64 and the integers.
template <typename F>
auto visit_number(DType dtype, F f) {
  return is_integer(dtype) ? visit_integer(dtype, f) : visit_float(dtype, f);
}

inline int64_t pieces_of(int64_t n, int64_t piece) { return (n + piece - 1) / piece; }

/// Calls body(first, end) for the pieces of [0, n), on up to `threads` threads. The pieces do not
/// depend on their number.
template <typename Body>
void for_pieces(int threads, int64_t n, int64_t piece, Body body) {
  parallel_for(threads, pieces_of(n, piece),
               [&](int64_t i, int) { body(i * piece, std::min(n, (i + 1) * piece)); });
}

/// Elements of a piece where each costs a load or two and a store: 64 KiB of floats.
inline constexpr int64_t kPiece = 16384;

}  // namespace flow::cpu
