// Reference: unary ops and their gradients.
#include <cmath>
#include <numbers>

#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

constexpr double kRootOf2OverPi = 0.7978845608028654;

bool is_negative(double x) { return x < 0; }
bool is_negative(uint64_t x) { return static_cast<int64_t>(x) < 0; }

bool approximates_by_tanh(const Request& request) {
  return request.step.attributes.get<std::string>("approximate") == "tanh";
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

double cubic(double x) { return kRootOf2OverPi * (x + 0.044715 * x * x * x); }

double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }

double share(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

/// dx from dy and what its operand v is: f's operand or its result.
template <typename F>
Kernel gradient(const Request& request, F f) {
  return map_float_pairs(request, f);
}

Kernel prepare_abs(const Request& request) {
  return map_numbers(request, [](auto x) { return is_negative(x) ? 0 - x : x; });
}

Kernel prepare_negative(const Request& request) {
  return map_numbers(request, [](auto x) { return 0 - x; });
}

Kernel prepare_sign(const Request& request) {
  return map_numbers(request, [](auto x) -> decltype(x) {
    if (is_negative(x)) return static_cast<decltype(x)>(-1);
    return x > 0 ? 1 : x;
  });
}

Kernel prepare_square(const Request& request) {
  return map_numbers(request, [](auto x) { return x * x; });
}

Kernel prepare_floor(const Request& request) {
  return map(request, [](double x) { return std::floor(x); });
}

Kernel prepare_ceil(const Request& request) {
  return map(request, [](double x) { return std::ceil(x); });
}

Kernel prepare_round(const Request& request) {
  return map(request, [](double x) { return std::rint(x); });
}

Kernel prepare_trunc(const Request& request) {
  return map(request, [](double x) { return std::trunc(x); });
}

Kernel prepare_acos(const Request& request) {
  return map(request, [](double x) { return std::acos(x); });
}

Kernel prepare_acos_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return -dy / std::sqrt(1 - x * x); });
}

template <typename F>
Kernel test(const Request& request, F f) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [f, n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                                 const CallState&) {
      for (int64_t i = 0; i < n; ++i) output<bool>(buffers, 0)[i] = f(input<T>(buffers, 0)[i]);
    };
  });
  return kernel;
}

Kernel prepare_isnan(const Request& request) {
  return test(request, [](double x) { return std::isnan(x); });
}

Kernel prepare_isinf(const Request& request) {
  return test(request, [](double x) { return std::isinf(x); });
}

Kernel prepare_isfinite(const Request& request) {
  return test(request, [](double x) { return std::isfinite(x); });
}

Kernel prepare_asinh(const Request& request) {
  return map(request, [](double x) { return std::asinh(x); });
}

Kernel prepare_asinh_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy / std::sqrt(1 + x * x); });
}

Kernel prepare_acosh(const Request& request) {
  return map(request, [](double x) { return std::acosh(x); });
}

Kernel prepare_acosh_grad(const Request& request) {
  return gradient(request,
                  [](double dy, double x) { return dy / (std::sqrt(x - 1) * std::sqrt(x + 1)); });
}

Kernel prepare_atanh(const Request& request) {
  return map(request, [](double x) { return std::atanh(x); });
}

Kernel prepare_atanh_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy / (1 - x * x); });
}

Kernel prepare_asin(const Request& request) {
  return map(request, [](double x) { return std::asin(x); });
}

Kernel prepare_asin_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy / std::sqrt(1 - x * x); });
}

Kernel prepare_atan(const Request& request) {
  return map(request, [](double x) { return std::atan(x); });
}

Kernel prepare_atan_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy / (1 + x * x); });
}

Kernel prepare_celu(const Request& request) {
  return map(request, [alpha = number(request, "alpha")](double x) {
    return x > 0 ? x : alpha * std::expm1(x / alpha);
  });
}

Kernel prepare_celu_grad(const Request& request) {
  return gradient(request, [alpha = number(request, "alpha")](double dy, double x) {
    return x > 0 ? dy : dy * std::exp(x / alpha);
  });
}

Kernel prepare_cosh(const Request& request) {
  return map(request, [](double x) { return std::cosh(x); });
}

Kernel prepare_cosh_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy * std::sinh(x); });
}

Kernel prepare_expm1(const Request& request) {
  return map(request, [](double x) { return std::expm1(x); });
}

Kernel prepare_expm1_grad(const Request& request) {
  return gradient(request, [](double dy, double y) { return dy * (y + 1); });
}

Kernel prepare_hard_sigmoid(const Request& request) {
  return map(request, [a = number(request, "alpha"), b = number(request, "beta")](double x) {
    return a * x + b < 0 ? 0 : a * x + b > 1 ? 1 : a * x + b;
  });
}

Kernel prepare_hard_sigmoid_grad(const Request& request) {
  return gradient(request,
                  [a = number(request, "alpha"), b = number(request, "beta")](double dy, double x) {
                    return 0 < a * x + b && a * x + b < 1 ? a * dy : 0;
                  });
}

Kernel prepare_log1p(const Request& request) {
  return map(request, [](double x) { return std::log1p(x); });
}

Kernel prepare_log1p_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy / (1 + x); });
}

Kernel prepare_log_sigmoid(const Request& request) {
  return map(request, [](double x) { return -softplus_of(-x); });
}

Kernel prepare_log_sigmoid_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy * sigmoid_of(-x); });
}

Kernel prepare_mish(const Request& request) {
  return map(request, [](double x) { return x * std::tanh(softplus_of(x)); });
}

Kernel prepare_mish_grad(const Request& request) {
  return gradient(request, [](double dy, double x) {
    const double t = std::tanh(softplus_of(x));
    return dy * (t + x * sigmoid_of(x) * (1 - t * t));
  });
}

Kernel prepare_reciprocal(const Request& request) {
  return map(request, [](double x) { return 1 / x; });
}

Kernel prepare_reciprocal_grad(const Request& request) {
  return gradient(request, [](double dy, double y) { return -dy * y * y; });
}

constexpr double kSeluScale = 1.0507009873554805, kSeluAlpha = 1.6732632423543772;

Kernel prepare_selu(const Request& request) {
  return map(request,
             [](double x) { return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x)); });
}

Kernel prepare_selu_grad(const Request& request) {
  return gradient(request, [](double dy, double x) {
    return dy * kSeluScale * (x > 0 ? 1 : kSeluAlpha * std::exp(x));
  });
}

Kernel prepare_sinh(const Request& request) {
  return map(request, [](double x) { return std::sinh(x); });
}

Kernel prepare_sinh_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy * std::cosh(x); });
}

Kernel prepare_softshrink(const Request& request) {
  return map(request, [l = number(request, "lambd")](double x) {
    return x > l ? x - l : x < -l ? x + l : 0 * x;
  });
}

Kernel prepare_softshrink_grad(const Request& request) {
  return gradient(request, [l = number(request, "lambd")](double dy, double x) {
    return x > l || x < -l ? dy : 0;
  });
}

Kernel prepare_softsign(const Request& request) {
  return map(request, [](double x) { return x / (1 + std::abs(x)); });
}

Kernel prepare_softsign_grad(const Request& request) {
  return gradient(request,
                  [](double dy, double x) { return dy / ((1 + std::abs(x)) * (1 + std::abs(x))); });
}

Kernel prepare_tan(const Request& request) {
  return map(request, [](double x) { return std::tan(x); });
}

Kernel prepare_tan_grad(const Request& request) {
  return gradient(request, [](double dy, double y) { return dy * (1 + y * y); });
}

Kernel prepare_threshold(const Request& request) {
  return map(request, [limit = number(request, "threshold"), value = number(request, "value")](
                          double x) { return x <= limit ? value : x; });
}

Kernel prepare_threshold_grad(const Request& request) {
  return gradient(request, [limit = number(request, "threshold")](double dy, double x) {
    return x <= limit ? 0 : dy;
  });
}

Kernel prepare_clip_by_value(const Request& request) {
  return map(request, [min = number(request, "min"), max = number(request, "max")](double x) {
    return x < min ? min : x > max ? max : x;
  });
}

Kernel prepare_clip_by_value_grad(const Request& request) {
  return gradient(request, [min = number(request, "min"), max = number(request, "max")](
                               double dy, double x) { return min <= x && x <= max ? dy : 0; });
}

Kernel prepare_cos(const Request& request) {
  return map(request, [](double x) { return std::cos(x); });
}

Kernel prepare_cos_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return -dy * std::sin(x); });
}

Kernel prepare_elu(const Request& request) {
  return map(request, [alpha = number(request, "alpha")](double x) {
    return x > 0 ? x : alpha * std::expm1(x);
  });
}

Kernel prepare_elu_grad(const Request& request) {
  return gradient(request, [alpha = number(request, "alpha")](double dy, double x) {
    return x > 0 ? dy : dy * alpha * std::exp(x);
  });
}

Kernel prepare_erf(const Request& request) {
  return map(request, [](double x) { return std::erf(x); });
}

Kernel prepare_erf_grad(const Request& request) {
  return gradient(request, [](double dy, double x) {
    return dy * 2 / std::sqrt(std::numbers::pi) * std::exp(-x * x);
  });
}

Kernel prepare_exp(const Request& request) {
  return map(request, [](double x) { return std::exp(x); });
}

Kernel prepare_exp_grad(const Request& request) {
  return gradient(request, [](double dy, double y) { return dy * y; });
}

Kernel prepare_gelu(const Request& request) {
  if (approximates_by_tanh(request))
    return map(request, [](double x) { return x / 2 * (1 + std::tanh(cubic(x))); });
  return map(request, [](double x) { return x * share(x); });
}

Kernel prepare_gelu_grad(const Request& request) {
  if (!approximates_by_tanh(request))
    return gradient(request, [](double dy, double x) { return dy * (share(x) + x * density(x)); });
  return gradient(request, [](double dy, double x) {
    const double t = std::tanh(cubic(x)), cosh = std::cosh(cubic(x));
    const double slope = kRootOf2OverPi * (1 + 3 * 0.044715 * x * x);
    return dy * ((1 + t) / 2 + x / 2 * slope / (cosh * cosh));
  });
}

Kernel prepare_hardswish(const Request& request) {
  return map(request, [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; });
}

Kernel prepare_hardswish_grad(const Request& request) {
  return gradient(request, [](double dy, double x) {
    return x <= -3 ? 0 : x >= 3 ? dy : dy * (x / 3 + 0.5);
  });
}

Kernel prepare_leaky_relu(const Request& request) {
  return map(request,
             [alpha = number(request, "alpha")](double x) { return x > 0 ? x : alpha * x; });
}

Kernel prepare_leaky_relu_grad(const Request& request) {
  return gradient(request, [alpha = number(request, "alpha")](double dy, double x) {
    return x > 0 ? dy : alpha * dy;
  });
}

Kernel prepare_log(const Request& request) {
  return map(request, [](double x) { return std::log(x); });
}

Kernel prepare_log_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy / x; });
}

Kernel prepare_relu(const Request& request) {
  return map(request, [](double x) { return x <= 0 ? 0.0 : x; });
}

Kernel prepare_relu_grad(const Request& request) {
  return gradient(request, [](double dy, double y) { return y <= 0 ? 0.0 : dy; });
}

Kernel prepare_relu6(const Request& request) {
  return map(request, [](double x) { return x < 0 ? 0 : x > 6 ? 6 : x; });
}

Kernel prepare_relu6_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return 0 < x && x < 6 ? dy : 0; });
}

Kernel prepare_rsqrt(const Request& request) {
  return map(request, [](double x) { return 1 / std::sqrt(x); });
}

Kernel prepare_rsqrt_grad(const Request& request) {
  return gradient(request, [](double dy, double y) { return -dy / 2 * y * y * y; });
}

Kernel prepare_sigmoid(const Request& request) { return map(request, sigmoid_of); }

Kernel prepare_sigmoid_grad(const Request& request) {
  return gradient(request, [](double dy, double y) { return dy * y * (1 - y); });
}

Kernel prepare_silu(const Request& request) {
  return map(request, [](double x) { return x * sigmoid_of(x); });
}

Kernel prepare_silu_grad(const Request& request) {
  return gradient(
      request, [](double dy, double x) { return dy * sigmoid_of(x) * (1 + x * sigmoid_of(-x)); });
}

Kernel prepare_sin(const Request& request) {
  return map(request, [](double x) { return std::sin(x); });
}

Kernel prepare_sin_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy * std::cos(x); });
}

Kernel prepare_softplus(const Request& request) { return map(request, softplus_of); }

Kernel prepare_softplus_grad(const Request& request) {
  return gradient(request, [](double dy, double x) { return dy * sigmoid_of(x); });
}

Kernel prepare_sqrt(const Request& request) {
  return map(request, [](double x) { return std::sqrt(x); });
}

Kernel prepare_sqrt_grad(const Request& request) {
  return gradient(request, [](double dy, double y) { return dy / (2 * y); });
}

Kernel prepare_tanh(const Request& request) {
  return map(request, [](double x) { return std::tanh(x); });
}

Kernel prepare_tanh_grad(const Request& request) {
  return gradient(request, [](double dy, double y) { return dy * (1 - y * y); });
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
