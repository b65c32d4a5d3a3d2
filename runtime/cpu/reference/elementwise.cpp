// Reference: elementwise ops, of one operand and of two that broadcast.
#include "runtime/cpu/reference/index.h"

namespace flow::cpu::reference {
namespace {

/// y = f(x), element by element, computed in double.
template <typename F>
Kernel map(const Request& request, F f) {
  const int64_t n = request.outputs[0].shape.elements();
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      const T* x = input<T>(buffers, 0);
      T* y = output<T>(buffers, 0);
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(f(static_cast<double>(x[i])));
    };
  });
  return kernel;
}

/// out = f(a, b), operands repeated to the result's shape.
template <typename A, typename B, typename R, typename F>
Kernel map_pairs(const Request& request, F f) {
  Kernel kernel;
  kernel.launch = [f, out = request.outputs[0].shape, a_shape = request.inputs[0].shape,
                   b_shape = request.inputs[1].shape](const Buffers& buffers, const CallState&) {
    const A* a = input<A>(buffers, 0);
    const B* b = input<B>(buffers, 1);
    R* to = output<R>(buffers, 0);
    for (int64_t i = 0, n = out.elements(); i < n; ++i)
      to[i] = f(a[operand_index(out, i, a_shape)], b[operand_index(out, i, b_shape)]);
  };
  return kernel;
}

/// Integers wrap around.
template <typename T, typename F>
Kernel arithmetic(const Request& request, F f) {
  return map_pairs<T, T, T>(request, [f](T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    else
      return static_cast<T>(f(static_cast<double>(a), static_cast<double>(b)));
  });
}

template <typename A, typename B>
Kernel equal_of(const Request& request) {
  return map_pairs<A, B, bool>(request, [](A a, B b) { return a == b; });
}

}  // namespace

Kernel relu(const Request& request) {
  return map(request, [](double x) { return x > 0 ? x : 0.0; });
}

Kernel scale(const Request& request) {
  return map(request, [factor = request.step.attributes.get<double>("factor")](double x) {
    return factor * x;
  });
}

Kernel relu_grad(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request, [](T dy, T y) { return y > 0 ? dy : T{0}; });
  });
}

Kernel add(const Request& request) {
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    return arithmetic<T>(request, [](auto a, auto b) { return a + b; });
  });
}

Kernel multiply(const Request& request) {
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    return arithmetic<T>(request, [](auto a, auto b) { return a * b; });
  });
}

Kernel equal(const Request& request) {
  const DType a = request.inputs[0].dtype, b = request.inputs[1].dtype;
  if (a == DType::kBool) return equal_of<bool, bool>(request);
  if (is_float(a)) return visit_float(a, [&]<typename T>(T) { return equal_of<T, T>(request); });
  return visit_integer(a, [&]<typename A>(A) {
    return visit_integer(b, [&]<typename B>(B) { return equal_of<A, B>(request); });
  });
}

}  // namespace flow::cpu::reference
