// The functors of the unary ops in unary.def and of their gradients, which loops of every kind
// inline: arithmetic, functions of numbers, and activations.
#pragma once

#include <tuple>
#include <type_traits>

#include "runtime/base/vector_math.h"

namespace flow::functions {

/// Returns F<T> whose members are set, in this order, to the attributes that F names.
template <template <typename> class F, typename T, typename Attributes>
F<T> with_attributes(const Attributes& attributes) {
  if constexpr (requires { F<T>::kAttributes; })
    return std::apply(
        [&](auto... names) -> F<T> {
          return {static_cast<T>(attributes.template get<double>(names))...};
        },
        F<T>::kAttributes);
  else
    return {};
}

// operator() returns y = f(x). gradient(dy, v) returns dy f'(x), where v is x or y, as stated for
// each functor.

#define FLOW_STEP(Function, value)                        \
  template <typename T>                                   \
  struct Function {                                       \
    FLOW_INLINE T operator()(T x) const { return value; } \
  }
#define FLOW_TEST(Function, value)                           \
  template <typename T>                                      \
  struct Function {                                          \
    FLOW_INLINE bool operator()(T x) const { return value; } \
  }
/// `v` is the name, x or y, of the value that the gradient's expression reads.
#define FLOW_FUNCTION(Function, v, value, gradient_value)              \
  template <typename T>                                                \
  struct Function {                                                    \
    FLOW_INLINE T operator()(T x) const { return value; }              \
    FLOW_INLINE T gradient(T dy, T v) const { return gradient_value; } \
  }

/// Negates x. Integers wrap around, because the smallest one has no positive counterpart.
template <typename T>
struct Negative {
  FLOW_INLINE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
    else
      return -x;
  }
};

/// Returns true if x is below 0. Unsigned types need no comparison.
template <typename T>
FLOW_INLINE bool is_negative(T x) {
  if constexpr (std::is_unsigned_v<T>)
    return false;
  else
    return x < T{0};
}

template <typename T>
struct Abs {
  FLOW_INLINE T operator()(T x) const {
    const T opposite = Negative<T>{}(x);
    if constexpr (std::is_floating_point_v<T>)
      return x > T{0} ? x : opposite + T{0};
    else
      return is_negative(x) ? opposite : x;
  }
};

/// Returns -1, 0 or 1, or NaN for NaN.
template <typename T>
struct Sign {
  FLOW_INLINE T operator()(T x) const {
    const T positive = x > T{0} ? T{1} : x;
    return is_negative(x) ? static_cast<T>(-1) : positive;
  }
};

template <typename T>
struct Square {
  FLOW_INLINE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
    else
      return x * x;
  }
};

FLOW_STEP(Floor, std::floor(x));
FLOW_STEP(Ceil, std::ceil(x));
FLOW_STEP(Round, std::rint(x));
FLOW_STEP(Trunc, std::trunc(x));

FLOW_TEST(IsNan, x != x);
/// Infinity minus itself is NaN, and so is NaN minus itself.
FLOW_TEST(IsFinite, x - x == T(0));
FLOW_TEST(IsInf, x == x && !IsFinite<T>{}(x));

// clang-format off

/// The gradient uses a product of two roots, because the square of x would overflow before its root
/// does.
FLOW_FUNCTION(Acosh, x, std::acosh(x), dy / (math::sqrt(x - T(1)) * math::sqrt(x + T(1))));
FLOW_FUNCTION(Asin, x, std::asin(x), dy / math::sqrt((T(1) - x) * (T(1) + x)));
FLOW_FUNCTION(Acos, x, std::acos(x), -Asin<T>{}.gradient(dy, x));
FLOW_FUNCTION(Asinh, x, std::asinh(x), dy / math::sqrt(x * x + T(1)));
FLOW_FUNCTION(Atanh, x, std::atanh(x), dy / ((T(1) - x) * (T(1) + x)));
FLOW_FUNCTION(Atan, x, std::atan(x), dy / (T(1) + x * x));
FLOW_FUNCTION(Cosh, x, std::cosh(x), dy * std::sinh(x));
/// The slope at 0 is 2 / sqrt(pi).
FLOW_FUNCTION(Erf, x, math::erf(x), dy * (T(1.12837916709551257390) * math::exp(-x * x)));
FLOW_FUNCTION(Exp, y, math::exp(x), dy * y);
FLOW_FUNCTION(Expm1, y, math::expm1(x), dy * (y + T(1)));
FLOW_FUNCTION(Log, x, math::log(x), dy / x);
FLOW_FUNCTION(Log1p, x, std::log1p(x), dy / (T(1) + x));
FLOW_FUNCTION(Reciprocal, y, T(1) / x, -dy * y * y);
/// -1/2 x^(-3/2) = -1/2 y^3
FLOW_FUNCTION(Rsqrt, y, T(1) / math::sqrt(x), T(-0.5) * dy * y * y * y);
FLOW_FUNCTION(Sinh, x, std::sinh(x), dy * std::cosh(x));
FLOW_FUNCTION(Sqrt, y, math::sqrt(x), T(0.5) * dy / y);
FLOW_FUNCTION(Tan, y, std::tan(x), dy * (T(1) + y * y));
// clang-format on

/// v is x.
template <typename T>
struct Clip {
  static constexpr std::tuple kAttributes{"min", "max"};
  T min, max;
  FLOW_INLINE T operator()(T x) const {
    const T above = x < min ? min : x;
    return above > max ? max : above;
  }
  FLOW_INLINE T gradient(T dy, T x) const {
    const T not_above = x <= max ? dy : T{0};
    return x >= min ? not_above : T{0};
  }
};

/// v is x. `Near` is the same function without numbers that is_far(x) accepts, computed by
/// arithmetic only.
template <typename T>
struct Cos {
  struct Near {
    FLOW_INLINE T operator()(T x) const { return math::cos_near(x); }
    FLOW_INLINE T gradient(T dy, T x) const { return -dy * math::sin_near(x); }
  };
  FLOW_INLINE T operator()(T x) const { return math::cos(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return -dy * math::sin(x); }
};

/// v is x. `Near` is the same as in Cos.
template <typename T>
struct Sin {
  struct Near {
    FLOW_INLINE T operator()(T x) const { return math::sin_near(x); }
    FLOW_INLINE T gradient(T dy, T x) const { return dy * math::cos_near(x); }
  };
  FLOW_INLINE T operator()(T x) const { return math::sin(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy * math::cos(x); }
};

// Activations, which only networks use.

// clang-format off
FLOW_FUNCTION(LogSigmoid, x, -math::softplus(-x), dy * math::sigmoid(-x));
/// NaN stays NaN, and passes the gradient.
FLOW_FUNCTION(Relu, y, x <= T(0) ? T(0) : x, y <= T(0) ? T(0) : dy);
FLOW_FUNCTION(Sigmoid, y, math::sigmoid(x), dy * (y * (T(1) - y)));
FLOW_FUNCTION(Softplus, x, math::softplus(x), dy * math::sigmoid(x));
FLOW_FUNCTION(Tanh, y, math::tanh(x), dy * ((T(1) - y) * (T(1) + y)));
// clang-format on

/// v is x.
template <typename T>
struct Celu {
  static constexpr std::tuple kAttributes{"alpha"};
  T alpha;
  FLOW_INLINE T operator()(T x) const {
    const T negative = alpha * math::expm1(x / alpha);
    return x > T{0} ? x : negative;
  }
  FLOW_INLINE T gradient(T dy, T x) const {
    const T negative = dy * math::exp(x / alpha);
    return x > T{0} ? dy : negative;
  }
};

/// v is x.
template <typename T>
struct Elu {
  static constexpr std::tuple kAttributes{"alpha"};
  T alpha;
  FLOW_INLINE T operator()(T x) const {
    const T negative = alpha * math::expm1(x);
    return x > T{0} ? x : negative;
  }
  FLOW_INLINE T gradient(T dy, T x) const {
    const T negative = dy * (alpha * math::exp(x));
    return x > T{0} ? dy : negative;
  }
};

/// x times the probability that a standard normal variable is below x. v is x.
template <typename T>
struct GeluErf {
  static constexpr T kHeight = T(0.39894228040143267794);  // 1 / sqrt(2 pi)
  FLOW_INLINE T operator()(T x) const { return x * math::normal(x).share; }
  FLOW_INLINE T gradient(T dy, T x) const {
    const math::Normal<T> normal = math::normal(x);
    return dy * (normal.share + x * (kHeight * normal.bell));
  }
};

/// The same with the probability approximated by (1 + tanh u) / 2 = sigmoid(2u), where u is a cubic
/// polynomial in x. v is x.
template <typename T>
struct GeluTanh {
  // 2 sqrt(2/pi), and the same number times 0.044715.
  static constexpr T kLinear = T(1.59576912160573071176), kCubic = T(0.07135481627260024878);
  FLOW_INLINE static T cubic(T x) { return x * (kLinear + kCubic * x * x); }
  FLOW_INLINE T operator()(T x) const { return x * math::sigmoid(cubic(x)); }
  FLOW_INLINE T gradient(T dy, T x) const {
    const math::Logistic<T> at = math::logistic(cubic(x));
    return dy * (at.share + x * (kLinear + T(3) * kCubic * x * x) * at.slope);
  }
};

/// v is x.
template <typename T>
struct HardSigmoid {
  static constexpr std::tuple kAttributes{"alpha", "beta"};
  T alpha, beta;
  FLOW_INLINE T operator()(T x) const {
    const T at = alpha * x + beta;
    const T above = at < T(0) ? T(0) : at;
    return above > T(1) ? T(1) : above;
  }
  FLOW_INLINE T gradient(T dy, T x) const {
    const T at = alpha * x + beta;
    const T not_below = at > T(0) ? alpha * dy : T(0);
    return at < T(1) ? not_below : T(0);
  }
};

/// v is x.
template <typename T>
struct HardSwish {
  FLOW_INLINE T operator()(T x) const {
    const T above = x + T(3) > T(0) ? x + T(3) : T(0);
    const T within = above > T(6) ? T(6) : above;
    return x * within / T(6);
  }
  FLOW_INLINE T gradient(T dy, T x) const {
    const T within = dy * (x / T(3) + T(0.5));
    const T not_above = x >= T(3) ? dy : within;
    return x <= T(-3) ? T(0) : not_above;
  }
};

/// v is x.
template <typename T>
struct LeakyRelu {
  static constexpr std::tuple kAttributes{"alpha"};
  T alpha;
  FLOW_INLINE T operator()(T x) const {
    const T negative = alpha * x;
    return x > T{0} ? x : negative;
  }
  FLOW_INLINE T gradient(T dy, T x) const {
    const T negative = alpha * dy;
    return x > T{0} ? dy : negative;
  }
};

/// v is x.
template <typename T>
struct Mish {
  FLOW_INLINE T operator()(T x) const { return x * math::tanh(math::softplus(x)); }
  FLOW_INLINE T gradient(T dy, T x) const {
    const T t = math::tanh(math::softplus(x));
    return dy * (t + x * math::sigmoid(x) * (T(1) - t * t));
  }
};

/// v is x.
template <typename T>
struct Relu6 {
  FLOW_INLINE T operator()(T x) const {
    const T above = x < T(0) ? T(0) : x;
    return above > T(6) ? T(6) : above;
  }
  FLOW_INLINE T gradient(T dy, T x) const {
    const T not_below = x > T(0) ? dy : T(0);
    return x < T(6) ? not_below : T(0);
  }
};

/// v is x.
template <typename T>
struct Selu {
  static constexpr T kScale = T(1.05070098735548049342), kAlpha = T(1.67326324235437728481);
  FLOW_INLINE T operator()(T x) const { return kScale * Elu<T>{kAlpha}(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return kScale * Elu<T>{kAlpha}.gradient(dy, x); }
};

/// v is x.
template <typename T>
struct Silu {
  FLOW_INLINE T operator()(T x) const { return x * math::sigmoid(x); }
  FLOW_INLINE T gradient(T dy, T x) const {
    const math::Logistic<T> at = math::logistic(x);
    return dy * (at.share + x * at.slope);
  }
};

/// NaN stays NaN. v is x.
template <typename T>
struct Softshrink {
  static constexpr std::tuple kAttributes{"lambd"};
  T lambd;
  FLOW_INLINE T operator()(T x) const {
    const T above = x > lambd ? x - lambd : x * T(0);
    return x < -lambd ? x + lambd : above;
  }
  FLOW_INLINE T gradient(T dy, T x) const {
    const T above = x > lambd ? dy : T(0);
    return x < -lambd ? dy : above;
  }
};

/// v is x.
template <typename T>
struct Softsign {
  FLOW_INLINE T operator()(T x) const { return x / (T(1) + Abs<T>{}(x)); }
  FLOW_INLINE T gradient(T dy, T x) const {
    const T r = T(1) / (T(1) + Abs<T>{}(x));
    return dy * r * r;
  }
};

/// NaN stays NaN. v is x.
template <typename T>
struct Threshold {
  static constexpr std::tuple kAttributes{"threshold", "value"};
  T threshold, value;
  FLOW_INLINE T operator()(T x) const { return x <= threshold ? value : x; }
  FLOW_INLINE T gradient(T dy, T x) const { return x <= threshold ? T(0) : dy; }
};

#undef FLOW_FUNCTION
#undef FLOW_STEP
#undef FLOW_TEST

}  // namespace flow::functions
