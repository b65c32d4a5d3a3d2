// Loops of reference kernels: over elements that broadcast, along an axis, and over elements that
// move one by one. They compute indices by plain division.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {

/// Returns the index of the operand's element that broadcasting assigns to element i of the result.
inline int64_t operand_index(const Shape& result, int64_t i, const Shape& operand) {
  int64_t index = 0, stride = 1;
  for (int axis = result.rank() - 1; axis >= 0; --axis) {
    const int own = axis - (result.rank() - operand.rank());
    if (own < 0) break;
    if (operand[own] != 1) index += i % result[axis] * stride;
    stride *= operand[own];
    i /= result[axis];
  }
  return index;
}

/// A shape as (outer, extent, inner) in C order, where `extent` is the size of one axis.
struct Around {
  Around(const Shape& shape, int axis)
      : outer(shape.elements(0, axis)),
        extent(shape[axis]),
        inner(shape.elements(axis + 1, shape.rank())) {}
  int64_t outer, extent, inner;
};

/// Returns ln(1 + e^x).
inline double softplus_of(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

/// Computes y = f(x) element by element. Floats are computed in double.
template <typename F>
Kernel map(const Request& request, F f) {
  const int64_t n = request.outputs[0].shape.elements();
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
      const T* x = input<T>(buffers, 0);
      T* y = output<T>(buffers, 0);
      for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
        for (int64_t i = first; i < end; ++i) y[i] = static_cast<T>(f(static_cast<double>(x[i])));
      });
    };
  });
  return kernel;
}

/// Computes y = f(x) element by element. Floats are computed in double, integers in uint64, which
/// wraps around.
template <typename F>
Kernel map_numbers(const Request& request, F f) {
  if (is_float(request.inputs[0].dtype)) return map(request, f);
  const int64_t n = request.outputs[0].shape.elements();
  Kernel kernel;
  visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      const T* x = input<T>(buffers, 0);
      T* y = output<T>(buffers, 0);
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(f(static_cast<uint64_t>(x[i])));
    };
  });
  return kernel;
}

/// Computes out = f(a, b), where the operands are broadcast to the result's shape.
template <typename A, typename B, typename R, typename F>
Kernel map_pairs(const Request& request, F f) {
  Kernel kernel;
  kernel.launch = [f, threads = request.threads, out = request.outputs[0].shape,
                   a_shape = request.inputs[0].shape,
                   b_shape = request.inputs[1].shape](const Buffers& buffers, const CallState&) {
    const A* a = input<A>(buffers, 0);
    const B* b = input<B>(buffers, 1);
    R* to = output<R>(buffers, 0);
    const bool alike = a_shape == out && b_shape == out;
    for_pieces(threads, out.elements(), kPiece, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i)
        to[i] = alike ? f(a[i], b[i])
                      : f(a[operand_index(out, i, a_shape)], b[operand_index(out, i, b_shape)]);
    });
  };
  return kernel;
}

/// Computes out = f(a, b) for floats of one dtype, in double.
template <typename F>
Kernel map_float_pairs(const Request& request, F f) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request, [f](T a, T b) {
      return static_cast<T>(f(static_cast<double>(a), static_cast<double>(b)));
    });
  });
}

/// Computes out = f(a, b, c) for floats of one dtype, in double, with broadcasting.
template <typename F>
Kernel map_float_triples(const Request& request, F f) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [f, out = request.outputs[0].shape, a_shape = request.inputs[0].shape,
                     b_shape = request.inputs[1].shape,
                     c_shape = request.inputs[2].shape](const Buffers& buffers, const CallState&) {
      for (int64_t i = 0, n = out.elements(); i < n; ++i)
        output<T>(buffers, 0)[i] =
            static_cast<T>(f(double_at<T>(buffers, 0, operand_index(out, i, a_shape)),
                             double_at<T>(buffers, 1, operand_index(out, i, b_shape)),
                             double_at<T>(buffers, 2, operand_index(out, i, c_shape))));
    };
  });
  return kernel;
}

using AxisPlaces = std::array<int64_t, plan::kMaxRank>;

/// Returns the position of element i along each axis.
inline AxisPlaces places_of(const Shape& shape, int64_t i) {
  AxisPlaces places{};
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    places[static_cast<size_t>(axis)] = i % shape[axis];
    i /= shape[axis];
  }
  return places;
}

inline int64_t index_at(const Shape& shape, const AxisPlaces& places) {
  int64_t index = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    index = index * shape[axis] + places[static_cast<size_t>(axis)];
  return index;
}

/// Computes dx[source(i)] += dy[i], starting from zeros.
template <typename Source>
Kernel scattering(const Request& request, Source source) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [source, n = request.inputs[0].shape.elements(),
                     m = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                              const CallState&) {
      for (int64_t j = 0; j < m; ++j) output<T>(buffers, 0)[j] = 0;
      for (int64_t i = 0; i < n; ++i) output<T>(buffers, 0)[source(i)] += input<T>(buffers, 0)[i];
    };
  });
  return kernel;
}

}  // namespace flow::cpu::reference
