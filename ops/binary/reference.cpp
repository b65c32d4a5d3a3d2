// Reference kernels of arithmetic with broadcasting, the gradients of `pow`, `scale`, comparisons
// and logical ops.
#include <cmath>
#include <functional>

#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

/// Computes floats in double and integers in uint64, which wraps around.
template <typename F>
Kernel wrapping(const Request& request, F f) {
  if (is_float(request.inputs[0].dtype)) return map_float_pairs(request, f);
  return visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request, [f](T a, T b) {
      return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    });
  });
}

/// Selects one of two floats or integers by comparing them in their own dtype. The result is NaN if
/// either is NaN.
template <typename F>
Kernel chosen(const Request& request, F is_first) {
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request,
                              [is_first](T a, T b) { return a != a || is_first(a, b) ? a : b; });
  });
}

/// The remainder of a division that rounds toward 0.
double remainder_of(double a, double b) { return std::fmod(a, b); }
int64_t remainder_of(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

/// The remainder of a division that rounds down, which has the sign of b.
template <typename T>
T modulus_of(T a, T b) {
  const T remainder = remainder_of(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double floor_quotient(double a, double b) {
  if (b == 0) return a / b;
  const double remainder = remainder_of(a, b);
  return std::round((a - remainder) / b) - (modulus_of(a, b) == remainder ? 0 : 1);
}

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return a / b - (modulus_of(a, b) == remainder_of(a, b) ? 0 : 1);
}

/// Computes floats in double and integers in int64.
template <typename F>
Kernel divided(const Request& request, F f) {
  if (is_float(request.inputs[0].dtype)) return map_float_pairs(request, f);
  return visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request, [f](T a, T b) {
      return static_cast<T>(f(static_cast<int64_t>(a), static_cast<int64_t>(b)));
    });
  });
}

/// Returns a^b modulo 2^64, computed with b multiplications. For a negative exponent, the result is
/// 1, -1 or 0.
int64_t integer_power(int64_t a, int64_t b) {
  if (b < 0 && a == -1) return b % 2 == 0 ? 1 : -1;
  if (b < 0) return a == 1 ? 1 : 0;
  uint64_t power = 1;
  for (int64_t i = 0; i < b; ++i) power *= static_cast<uint64_t>(a);
  return static_cast<int64_t>(power);
}

Kernel prepare_pow(const Request& request) {
  if (is_float(request.inputs[0].dtype))
    return map_float_pairs(request, [](double a, double b) { return std::pow(a, b); });
  return visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_pairs<T, T, T>(request,
                              [](T a, T b) { return static_cast<T>(integer_power(a, b)); });
  });
}

/// Defines a function that returns the kernel loop(request, f).
#define FLOW_PAIRS(op, loop, formula)                             \
  Kernel prepare_##op(const Request& request) {                   \
    return loop(request, [](auto a, auto b) { return formula; }); \
  }
FLOW_PAIRS(add, wrapping, a + b)
FLOW_PAIRS(subtract, wrapping, a - b)
FLOW_PAIRS(multiply, wrapping, (a * b))
FLOW_PAIRS(divide, map_float_pairs, a / b)
FLOW_PAIRS(floor_divide, divided, floor_quotient(a, b))
FLOW_PAIRS(mod, divided, modulus_of(a, b))
FLOW_PAIRS(fmod, divided, remainder_of(a, b))
FLOW_PAIRS(maximum, chosen, a >= b)
FLOW_PAIRS(minimum, chosen, a <= b)

Kernel prepare_scale(const Request& request) {
  return map(request, [factor = number(request, "factor")](double x) { return factor * x; });
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

template <typename F>
Kernel compare(const Request& request) {
  const F f{};
  const DType a = request.inputs[0].dtype, b = request.inputs[1].dtype;
  if (a == DType::kBool) return map_pairs<bool, bool, bool>(request, f);
  if (is_float(a))
    return visit_float(a, [&]<typename T>(T) { return map_pairs<T, T, bool>(request, f); });
  Kernel kernel;
  kernel.launch = [=, out = request.outputs[0].shape, a_shape = request.inputs[0].shape,
                   b_shape = request.inputs[1].shape](const Buffers& buffers, const CallState&) {
    for (int64_t i = 0, n = out.elements(); i < n; ++i)
      output<bool>(buffers, 0)[i] =
          f(integer_at(a, buffers.inputs[0], operand_index(out, i, a_shape)),
            integer_at(b, buffers.inputs[1], operand_index(out, i, b_shape)));
  };
  return kernel;
}

Kernel prepare_logical_not(const Request& request) {
  Kernel kernel;
  kernel.launch = [n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                            const CallState&) {
    for (int64_t i = 0; i < n; ++i) output<bool>(buffers, 0)[i] = !input<bool>(buffers, 0)[i];
  };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> binary() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_ARITHMETIC(op, ...) {#op, prepare_##op},
#define FLOW_ARITHMETIC_GRAD FLOW_ARITHMETIC
#include "ops/binary/binary.def"
      {"scale", prepare_scale},
      {"equal", compare<std::equal_to<>>},
      {"not_equal", compare<std::not_equal_to<>>},
      {"greater", compare<std::greater<>>},
      {"greater_equal", compare<std::greater_equal<>>},
      {"less", compare<std::less<>>},
      {"less_equal", compare<std::less_equal<>>},
      {"logical_and", compare<std::logical_and<>>},
      {"logical_or", compare<std::logical_or<>>},
      {"logical_not", prepare_logical_not},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
