// Reference: arithmetic and differences of two operands that broadcast, their gradients, and scale.
#include <cmath>

#include "runtime/cpu/reference/map.h"

namespace flow::cpu::reference {
namespace {

/// Integers in uint64, which wraps around.
template <typename F>
Kernel arithmetic(const Request& request, F f) {
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

double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double beta_of(const Request& request) { return request.step.attributes.get<double>("beta"); }

}  // namespace

Kernel scale(const Request& request) {
  return map(request, [factor = request.step.attributes.get<double>("factor")](double x) {
    return factor * x;
  });
}

Kernel add(const Request& request) {
  return arithmetic(request, [](auto a, auto b) { return a + b; });
}

Kernel subtract(const Request& request) {
  return arithmetic(request, [](auto a, auto b) { return a - b; });
}

Kernel multiply(const Request& request) {
  return arithmetic(request, [](auto a, auto b) { return a * b; });
}

Kernel divide(const Request& request) {
  return map_float_pairs(request, [](double a, double b) { return a / b; });
}

Kernel maximum(const Request& request) {
  return chosen(request, [](auto a, auto b) { return a >= b; });
}

Kernel minimum(const Request& request) {
  return chosen(request, [](auto a, auto b) { return a <= b; });
}

Kernel pow(const Request& request) {
  if (is_float(request.inputs[0].dtype))
    return map_float_pairs(request, [](double a, double b) { return std::pow(a, b); });
  return visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request,
                              [](T a, T b) { return static_cast<T>(integer_power(a, b)); });
  });
}

Kernel pow_grad_base(const Request& request) {
  return map_float_triples(request, [](double dy, double a, double b) {
    return b == 0 ? 0 : dy * b * std::pow(a, b - 1);
  });
}

Kernel pow_grad_exponent(const Request& request) {
  return map_float_triples(request, [](double dy, double a, double b) {
    return a == 0 && b >= 0 ? 0 : dy * std::pow(a, b) * std::log(a);
  });
}

Kernel mse(const Request& request) {
  return map_float_pairs(request, [](double a, double b) { return (a - b) * (a - b); });
}

Kernel mse_grad(const Request& request) {
  return map_float_triples(request, [](double dy, double a, double b) { return 2 * dy * (a - b); });
}

Kernel l1(const Request& request) {
  return map_float_pairs(request, [](double a, double b) { return std::abs(a - b); });
}

Kernel l1_grad(const Request& request) {
  return map_float_triples(request, [](double dy, double a, double b) {
    return a > b ? dy : a < b ? -dy : 0;
  });
}

Kernel smooth_l1(const Request& request) {
  return map_float_pairs(request, [beta = beta_of(request)](double a, double b) {
    const double d = std::abs(a - b);
    return d < beta ? d * d / (2 * beta) : d - beta / 2;
  });
}

Kernel smooth_l1_grad(const Request& request) {
  return map_float_triples(request, [beta = beta_of(request)](double dy, double a, double b) {
    return dy * std::min(std::max((a - b) / beta, -1.0), 1.0);
  });
}

Kernel sigmoid_cross_entropy_with_logits(const Request& request) {
  return map_float_pairs(request, [](double z, double x) { return softplus_of(x) - x * z; });
}

Kernel sigmoid_cross_entropy_with_logits_grad(const Request& request) {
  return map_float_triples(
      request, [](double dy, double z, double x) { return dy * (1 / (1 + std::exp(-x)) - z); });
}

}  // namespace flow::cpu::reference
