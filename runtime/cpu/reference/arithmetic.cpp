// Reference: arithmetic of two operands that broadcast, the gradients of pow, and scale.
#include <cmath>

#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/reference/map.h"

namespace flow::cpu::reference {
namespace {

/// Floats in double, integers in uint64, which wraps around.
template <typename F>
Kernel wrapping(const Request& request, F f) {
  if (is_float(request.inputs[0].dtype)) return map_float_pairs(request, f);
  return visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request, [f](T a, T b) {
      return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    });
  });
}

/// Floats and integers in their own order. NaN where either is.
template <typename F>
Kernel chosen(const Request& request, F is_first) {
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request,
                              [is_first](T a, T b) { return a != a || is_first(a, b) ? a : b; });
  });
}

/// a^b modulo 2^64, by as many products; a negative exponent leaves 1, -1 or 0.
int64_t integer_power(int64_t a, int64_t b) {
  if (b < 0 && a == -1) return b % 2 == 0 ? 1 : -1;
  if (b < 0) return a == 1 ? 1 : 0;
  uint64_t power = 1;
  for (int64_t i = 0; i < b; ++i) power *= static_cast<uint64_t>(a);
  return static_cast<int64_t>(power);
}

Kernel prepare_scale(const Request& request) {
  return map(request, [factor = request.step.attributes.get<double>("factor")](double x) {
    return factor * x;
  });
}

Kernel prepare_add(const Request& request) {
  return wrapping(request, [](auto a, auto b) { return a + b; });
}

Kernel prepare_subtract(const Request& request) {
  return wrapping(request, [](auto a, auto b) { return a - b; });
}

Kernel prepare_multiply(const Request& request) {
  return wrapping(request, [](auto a, auto b) { return a * b; });
}

Kernel prepare_divide(const Request& request) {
  return map_float_pairs(request, [](double a, double b) { return a / b; });
}

Kernel prepare_maximum(const Request& request) {
  return chosen(request, [](auto a, auto b) { return a >= b; });
}

Kernel prepare_minimum(const Request& request) {
  return chosen(request, [](auto a, auto b) { return a <= b; });
}

Kernel prepare_pow(const Request& request) {
  if (is_float(request.inputs[0].dtype))
    return map_float_pairs(request, [](double a, double b) { return std::pow(a, b); });
  return visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request,
                              [](T a, T b) { return static_cast<T>(integer_power(a, b)); });
  });
}

Kernel prepare_pow_grad_base(const Request& request) {
  return map_float_triples(request, [](double dy, double a, double b) {
    return b == 0 ? 0 : dy * b * std::pow(a, b - 1);
  });
}

Kernel prepare_pow_grad_exponent(const Request& request) {
  return map_float_triples(request, [](double dy, double a, double b) {
    return a == 0 && b >= 0 ? 0 : dy * std::pow(a, b) * std::log(a);
  });
}

}  // namespace

std::span<const KernelEntry> arithmetic() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_ARITHMETIC(op, ...) {#op, prepare_##op},
#define FLOW_ARITHMETIC_GRAD FLOW_ARITHMETIC
#include "ops/binary.def"
      {"scale", prepare_scale},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
