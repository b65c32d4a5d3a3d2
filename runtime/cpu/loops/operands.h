// Typed pointers to a launch's buffers, flat loops in pieces, and kernels that consist of one of
// these loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/parallel.h"

namespace flow::cpu {

using flow::visit_float, flow::visit_integer, flow::visit_number;

template <typename T>
const T* input(const Buffers& buffers, size_t i) {
  return reinterpret_cast<const T*>(buffers.inputs[i]);
}

template <typename T>
T* output(const Buffers& buffers, size_t i) {
  return reinterpret_cast<T*>(buffers.outputs[i]);
}

/// Returns a number from an attribute of the step.
inline double number(const Request& request, std::string_view name) {
  return request.step.attributes.get<double>(name);
}

/// Returns a list of integers, such as axes, from an attribute of the step.
inline const std::vector<int64_t>& integers(const Request& request, std::string_view name) {
  return request.step.attributes.get<std::vector<int64_t>>(name);
}

/// Returns the step's attribute `axis`.
inline int axis_of(const Request& request) {
  return static_cast<int>(request.step.attributes.get<int64_t>("axis"));
}

/// Returns element i of an operand as a double.
template <typename T>
double double_at(const Buffers& buffers, size_t operand, int64_t i) {
  return static_cast<double>(input<T>(buffers, operand)[i]);
}

/// Returns element i of an array of an integer dtype.
inline int64_t integer_at(DType dtype, const std::byte* elements, int64_t i) {
  return visit_integer(dtype, [&]<typename T>(T) {
    return static_cast<int64_t>(reinterpret_cast<const T*>(elements)[i]);
  });
}

/// Calls body(first, end) for the pieces of [0, n) on up to `threads` threads. The pieces do not
/// depend on the number of threads.
template <typename Body>
void for_pieces(int threads, int64_t n, int64_t piece, Body body) {
  parallel_for(threads, ceil_div(n, piece),
               [&](int64_t i, int) { body(i * piece, std::min(n, (i + 1) * piece)); });
}

/// The number of elements of a piece if each costs one or two loads and a store: 64 KiB of floats.
inline constexpr int64_t kPiece = 16384;

/// The elements or rows [first, end) of a launch, which one thread processes.
struct Piece {
  const Buffers& buffers;
  const CallState& state;
  int64_t first, end;
  int worker;  // index in [0, threads)

  int64_t size() const { return end - first; }
  // Returns the address of element `first` of an operand or a result.
  template <typename T>
  const T* input(size_t i) const {
    return cpu::input<T>(buffers, i) + first;
  }
  template <typename T>
  T* output(size_t i) const {
    return cpu::output<T>(buffers, i) + first;
  }
};

/// Returns a Kernel that calls run(piece) for the pieces of n elements or rows.
template <typename Run>
Kernel in_pieces(const Request& request, int64_t n, int64_t size, Run run) {
  return {[=, threads = request.threads](const Buffers& buffers, const CallState& state) {
    parallel_for(threads, ceil_div(n, size), [&](int64_t i, int worker) {
      run(Piece{buffers, state, i * size, std::min(n, (i + 1) * size), worker});
    });
  }};
}

/// Returns a Kernel that calls run(piece) for the pieces of the first result's elements.
template <typename Run>
Kernel elementwise(const Request& request, Run run) {
  return in_pieces(request, request.outputs[0].shape.elements(), kPiece, run);
}

/// Returns a Kernel that calls run(piece, row) for rows that each cost as much as `cost` elements.
template <typename Run>
Kernel by_rows(const Request& request, int64_t rows, int64_t cost, Run run) {
  return in_pieces(request, rows, std::max<int64_t>(1, kPiece / cost), [run](const Piece& piece) {
    for (int64_t row = piece.first; row < piece.end; ++row) run(piece, row);
  });
}

}  // namespace flow::cpu
