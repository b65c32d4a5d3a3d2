// Reference: loops over elements, of one operand, and of two or three that broadcast.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/core/reference_index.h"

namespace flow::cpu::reference {

/// ln(1 + e^x)
inline double softplus_of(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

/// y = f(x), element by element; floats are computed in double.
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

/// The same of integers too, which are computed in uint64: they wrap around.
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

/// out = f(a, b), operands repeated to the result's shape.
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

/// The same of floats of one dtype, computed in double.
template <typename F>
Kernel map_float_pairs(const Request& request, F f) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request, [f](T a, T b) {
      return static_cast<T>(f(static_cast<double>(a), static_cast<double>(b)));
    });
  });
}

/// out = f(a, b, c), likewise of operands of dtypes A, T and T.
template <typename A, typename T, typename F>
Kernel map_triples(const Request& request, F f) {
  Kernel kernel;
  kernel.launch = [f, out = request.outputs[0].shape, a_shape = request.inputs[0].shape,
                   b_shape = request.inputs[1].shape,
                   c_shape = request.inputs[2].shape](const Buffers& buffers, const CallState&) {
    for (int64_t i = 0, n = out.elements(); i < n; ++i)
      output<T>(buffers, 0)[i] = f(input<A>(buffers, 0)[operand_index(out, i, a_shape)],
                                   input<T>(buffers, 1)[operand_index(out, i, b_shape)],
                                   input<T>(buffers, 2)[operand_index(out, i, c_shape)]);
  };
  return kernel;
}

/// The same of floats, computed in double.
template <typename F>
Kernel map_float_triples(const Request& request, F f) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_triples<T, T>(request, [f](T a, T b, T c) {
      return static_cast<T>(
          f(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c)));
    });
  });
}

}  // namespace flow::cpu::reference
