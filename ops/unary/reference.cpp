// Reference kernels of unary ops and of their gradients, as formulas in double. A gradient reads dy
// and either the operand x or the result y, whichever its functor reads (v in unary.def).
#include <cmath>
#include <numbers>

#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

constexpr double kRootOf2OverPi = 0.7978845608028654;
constexpr double kSeluScale = 1.0507009873554805, kSeluAlpha = 1.6732632423543772;

bool is_negative(double x) { return x < 0; }
bool is_negative(uint64_t x) { return static_cast<int64_t>(x) < 0; }

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

double cubic(double x) { return kRootOf2OverPi * (x + 0.044715 * x * x * x); }
double cubic_slope(double x) { return kRootOf2OverPi * (1 + 3 * 0.044715 * x * x); }

double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }

double share(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

double mish_slope(double x) {
  const double t = std::tanh(softplus_of(x));
  return t + x * sigmoid_of(x) * (1 - t * t);
}

double gelu_slope(double x) {
  const double t = std::tanh(cubic(x)), cosh = std::cosh(cubic(x));
  return (1 + t) / 2 + x / 2 * cubic_slope(x) / (cosh * cosh);
}

/// The attributes that appear in the formulas of any op. An attribute that the op does not have is
/// 0.
struct Numbers {
  double alpha, beta, lambd, threshold, value, min, max;

  explicit Numbers(const Request& request) {
    const auto of = [&](std::string_view name) {
      const plan::Attribute* found = request.step.attributes.find(name);
      return found ? std::get<double>(*found) : 0;
    };
    alpha = of("alpha"), beta = of("beta"), lambd = of("lambd"), threshold = of("threshold");
    value = of("value"), min = of("min"), max = of("max");
  }
};

template <typename F>
Kernel test(const Request& request, F f) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [f, n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                                 const CallState&) {
      for (int64_t i = 0; i < n; ++i)
        output<bool>(buffers, 0)[i] = f(static_cast<double>(input<T>(buffers, 0)[i]));
    };
  });
  return kernel;
}

#define FLOW_NAMES \
  [[maybe_unused]] const auto& [alpha, beta, lambd, threshold, value, min, max] = numbers
#define FLOW_NUMBER(op, formula)                                                \
  Kernel prepare_##op(const Request& request) {                                 \
    return map_numbers(request, [](auto x) -> decltype(x) { return formula; }); \
  }
#define FLOW_TEST(op, formula)                                      \
  Kernel prepare_##op(const Request& request) {                     \
    return test(request, [](double x) -> bool { return formula; }); \
  }
#define FLOW_FLOAT(op, formula)                                            \
  Kernel prepare_##op(const Request& request) {                            \
    return map(request, [numbers = Numbers(request)](double x) -> double { \
      FLOW_NAMES;                                                          \
      return formula;                                                      \
    });                                                                    \
  }
#define FLOW_GRADIENT(op, v, formula)                                                             \
  Kernel prepare_##op##_grad(const Request& request) {                                            \
    return map_float_pairs(request, [numbers = Numbers(request)](double dy, double v) -> double { \
      FLOW_NAMES;                                                                                 \
      return formula;                                                                             \
    });                                                                                           \
  }

// clang-format off
FLOW_NUMBER(abs, is_negative(x) ? 0 - x : x)
FLOW_NUMBER(negative, 0 - x)
FLOW_NUMBER(sign, is_negative(x) ? static_cast<decltype(x)>(-1) : x > 0 ? 1 : x)
FLOW_NUMBER(square, x * x)
FLOW_FLOAT(floor, std::floor(x))
FLOW_FLOAT(ceil, std::ceil(x))
FLOW_FLOAT(round, std::rint(x))
FLOW_FLOAT(trunc, std::trunc(x))
FLOW_TEST(isnan, std::isnan(x))
FLOW_TEST(isinf, std::isinf(x))
FLOW_TEST(isfinite, std::isfinite(x))
FLOW_FLOAT(relu, x <= 0 ? 0 : x)
FLOW_GRADIENT(relu, y, y <= 0 ? 0 : dy)
FLOW_FLOAT(relu6, x < 0 ? 0 : x > 6 ? 6 : x)
FLOW_GRADIENT(relu6, x, 0 < x && x < 6 ? dy : 0)
FLOW_FLOAT(leaky_relu, x > 0 ? x : alpha * x)
FLOW_GRADIENT(leaky_relu, x, x > 0 ? dy : alpha * dy)
FLOW_FLOAT(elu, x > 0 ? x : alpha * std::expm1(x))
FLOW_GRADIENT(elu, x, x > 0 ? dy : dy * alpha * std::exp(x))
FLOW_FLOAT(celu, x > 0 ? x : alpha * std::expm1(x / alpha))
FLOW_GRADIENT(celu, x, x > 0 ? dy : dy * std::exp(x / alpha))
FLOW_FLOAT(selu, kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x)))
FLOW_GRADIENT(selu, x, dy * kSeluScale * (x > 0 ? 1 : kSeluAlpha * std::exp(x)))
FLOW_FLOAT(sigmoid, sigmoid_of(x))
FLOW_GRADIENT(sigmoid, y, dy * y * (1 - y))
FLOW_FLOAT(hard_sigmoid, alpha * x + beta < 0 ? 0 : alpha * x + beta > 1 ? 1 : alpha * x + beta)
FLOW_GRADIENT(hard_sigmoid, x, 0 < alpha * x + beta && alpha * x + beta < 1 ? alpha * dy : 0)
FLOW_FLOAT(log_sigmoid, -softplus_of(-x))
FLOW_GRADIENT(log_sigmoid, x, dy * sigmoid_of(-x))
FLOW_FLOAT(silu, x * sigmoid_of(x))
FLOW_GRADIENT(silu, x, dy * sigmoid_of(x) * (1 + x * sigmoid_of(-x)))
FLOW_FLOAT(hardswish, x * std::min(std::max(x + 3, 0.0), 6.0) / 6)
FLOW_GRADIENT(hardswish, x, x <= -3 ? 0 : x >= 3 ? dy : dy * (x / 3 + 0.5))
FLOW_FLOAT(mish, x * std::tanh(softplus_of(x)))
FLOW_GRADIENT(mish, x, dy * mish_slope(x))
FLOW_FLOAT(gelu_erf, x * share(x))
FLOW_GRADIENT(gelu_erf, x, dy * (share(x) + x * density(x)))
FLOW_FLOAT(gelu_tanh, x / 2 * (1 + std::tanh(cubic(x))))
FLOW_GRADIENT(gelu_tanh, x, dy * gelu_slope(x))
FLOW_FLOAT(softplus, softplus_of(x))
FLOW_GRADIENT(softplus, x, dy * sigmoid_of(x))
FLOW_FLOAT(softsign, x / (1 + std::abs(x)))
FLOW_GRADIENT(softsign, x, dy / ((1 + std::abs(x)) * (1 + std::abs(x))))
FLOW_FLOAT(softshrink, x > lambd ? x - lambd : x < -lambd ? x + lambd : 0 * x)
FLOW_GRADIENT(softshrink, x, x > lambd || x < -lambd ? dy : 0)
FLOW_FLOAT(threshold, x <= threshold ? value : x)
FLOW_GRADIENT(threshold, x, x <= threshold ? 0 : dy)
FLOW_FLOAT(clip_by_value, x < min ? min : x > max ? max : x)
FLOW_GRADIENT(clip_by_value, x, min <= x && x <= max ? dy : 0)
FLOW_FLOAT(reciprocal, 1 / x)
FLOW_GRADIENT(reciprocal, y, -dy * y * y)
FLOW_FLOAT(sqrt, std::sqrt(x))
FLOW_GRADIENT(sqrt, y, dy / (2 * y))
FLOW_FLOAT(rsqrt, 1 / std::sqrt(x))
FLOW_GRADIENT(rsqrt, y, -dy / 2 * y * y * y)
FLOW_FLOAT(exp, std::exp(x))
FLOW_GRADIENT(exp, y, dy * y)
FLOW_FLOAT(expm1, std::expm1(x))
FLOW_GRADIENT(expm1, y, dy * (y + 1))
FLOW_FLOAT(log, std::log(x))
FLOW_GRADIENT(log, x, dy / x)
FLOW_FLOAT(log1p, std::log1p(x))
FLOW_GRADIENT(log1p, x, dy / (1 + x))
FLOW_FLOAT(erf, std::erf(x))
FLOW_GRADIENT(erf, x, dy * 2 / std::sqrt(std::numbers::pi) * std::exp(-x * x))
FLOW_FLOAT(sin, std::sin(x))
FLOW_GRADIENT(sin, x, dy * std::cos(x))
FLOW_FLOAT(cos, std::cos(x))
FLOW_GRADIENT(cos, x, -dy * std::sin(x))
FLOW_FLOAT(tan, std::tan(x))
FLOW_GRADIENT(tan, y, dy * (1 + y * y))
FLOW_FLOAT(asin, std::asin(x))
FLOW_GRADIENT(asin, x, dy / std::sqrt(1 - x * x))
FLOW_FLOAT(acos, std::acos(x))
FLOW_GRADIENT(acos, x, -dy / std::sqrt(1 - x * x))
FLOW_FLOAT(atan, std::atan(x))
FLOW_GRADIENT(atan, x, dy / (1 + x * x))
FLOW_FLOAT(sinh, std::sinh(x))
FLOW_GRADIENT(sinh, x, dy * std::cosh(x))
FLOW_FLOAT(cosh, std::cosh(x))
FLOW_GRADIENT(cosh, x, dy * std::sinh(x))
FLOW_FLOAT(tanh, std::tanh(x))
FLOW_GRADIENT(tanh, y, dy * (1 - y * y))
FLOW_FLOAT(asinh, std::asinh(x))
FLOW_GRADIENT(asinh, x, dy / std::sqrt(1 + x * x))
FLOW_FLOAT(acosh, std::acosh(x))
FLOW_GRADIENT(acosh, x, dy / (std::sqrt(x - 1) * std::sqrt(x + 1)))
FLOW_FLOAT(atanh, std::atanh(x))
FLOW_GRADIENT(atanh, x, dy / (1 - x * x))
// clang-format on

bool approximates_by_tanh(const Request& request) {
  return request.step.attributes.get<std::string>("approximate") == "tanh";
}

Kernel prepare_gelu(const Request& request) {
  return approximates_by_tanh(request) ? prepare_gelu_tanh(request) : prepare_gelu_erf(request);
}

Kernel prepare_gelu_grad(const Request& request) {
  return approximates_by_tanh(request) ? prepare_gelu_tanh_grad(request)
                                       : prepare_gelu_erf_grad(request);
}

}  // namespace

std::span<const KernelEntry> unary() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_UNARY_NUMBER_SPEC(op, ...) {#op, prepare_##op},
#define FLOW_UNARY_SPEC(op, ...) {#op, prepare_##op}, {#op "_grad", prepare_##op##_grad},
#include "ops/unary/unary.def"
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
