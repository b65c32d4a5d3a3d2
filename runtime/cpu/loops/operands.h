// Typed pointers to a launch's buffers, and flat loops in pieces.
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

/// An attribute of the step.
inline double number(const Request& request, std::string_view name) {
  return request.step.attributes.get<double>(name);
}

/// A list of integers, such as axes, in an attribute of the step.
inline const std::vector<int64_t>& integers(const Request& request, std::string_view name) {
  return request.step.attributes.get<std::vector<int64_t>>(name);
}

/// The step's attribute `axis`.
inline int axis_of(const Request& request) {
  return static_cast<int>(request.step.attributes.get<int64_t>("axis"));
}

/// Element i of an operand.
template <typename T>
double double_at(const Buffers& buffers, size_t operand, int64_t i) {
  return static_cast<double>(input<T>(buffers, operand)[i]);
}

/// Element i of an array of an integer dtype.
inline int64_t integer_at(DType dtype, const std::byte* elements, int64_t i) {
  return visit_integer(dtype, [&]<typename T>(T) {
    return static_cast<int64_t>(reinterpret_cast<const T*>(elements)[i]);
  });
}

/// Calls body(first, end) for the pieces of [0, n), on up to `threads` threads. The pieces do not
/// depend on their number.
template <typename Body>
void for_pieces(int threads, int64_t n, int64_t piece, Body body) {
  parallel_for(threads, ceil_div(n, piece),
               [&](int64_t i, int) { body(i * piece, std::min(n, (i + 1) * piece)); });
}

/// Elements of a piece where each costs a load or two and a store: 64 KiB of floats.
inline constexpr int64_t kPiece = 16384;

}  // namespace flow::cpu
