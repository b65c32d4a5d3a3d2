// The functors of unary ops and of their gradients (unary.def lists them), which loops of every
// kind inline: arithmetic and functions of numbers. Activations: activations.h.
#pragma once

#include <tuple>
#include <type_traits>

#include "runtime/base/vector_math.h"

namespace flow::functions {

/// F<T> with the attributes that it names, in this order, as its members.
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

// operator() is y = f(x). gradient(dy, v) is dy f'(x), where v is x or y, as each says.

/// Integers wrap around: there is no positive of the least one.
template <typename T>
struct Negative {
  FLOW_INLINE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
    else
      return -x;
  }
};

/// Is x below 0? Not asked of what cannot be.
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

/// -1, 0 or 1; NaN of NaN.
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

template <typename T>
struct Floor {
  FLOW_INLINE T operator()(T x) const { return std::floor(x); }
};

template <typename T>
struct Ceil {
  FLOW_INLINE T operator()(T x) const { return std::ceil(x); }
};

template <typename T>
struct Round {
  FLOW_INLINE T operator()(T x) const { return std::rint(x); }
};

template <typename T>
struct Trunc {
  FLOW_INLINE T operator()(T x) const { return std::trunc(x); }
};

template <typename T>
struct IsNan {
  FLOW_INLINE bool operator()(T x) const { return x != x; }
};

/// What an infinity or a NaN leaves of itself is NaN.
template <typename T>
struct IsFinite {
  FLOW_INLINE bool operator()(T x) const { return x - x == T(0); }
};

template <typename T>
struct IsInf {
  FLOW_INLINE bool operator()(T x) const { return x == x && !IsFinite<T>{}(x); }
};

/// v is x, whose square would overflow before its root does.
template <typename T>
struct Acosh {
  FLOW_INLINE T operator()(T x) const { return std::acosh(x); }
  FLOW_INLINE T gradient(T dy, T x) const {
    return dy / (math::sqrt(x - T(1)) * math::sqrt(x + T(1)));
  }
};

/// v is x.
template <typename T>
struct Asin {
  FLOW_INLINE T operator()(T x) const { return std::asin(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy / math::sqrt((T(1) - x) * (T(1) + x)); }
};

/// v is x.
template <typename T>
struct Acos {
  FLOW_INLINE T operator()(T x) const { return std::acos(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return -Asin<T>{}.gradient(dy, x); }
};

/// v is x.
template <typename T>
struct Asinh {
  FLOW_INLINE T operator()(T x) const { return std::asinh(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy / math::sqrt(x * x + T(1)); }
};

/// v is x.
template <typename T>
struct Atanh {
  FLOW_INLINE T operator()(T x) const { return std::atanh(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy / ((T(1) - x) * (T(1) + x)); }
};

/// v is x.
template <typename T>
struct Atan {
  FLOW_INLINE T operator()(T x) const { return std::atan(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy / (T(1) + x * x); }
};

/// v is x.
template <typename T>
struct Cosh {
  FLOW_INLINE T operator()(T x) const { return std::cosh(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy * std::sinh(x); }
};

/// v is y.
template <typename T>
struct Expm1 {
  FLOW_INLINE T operator()(T x) const { return math::expm1(x); }
  FLOW_INLINE T gradient(T dy, T y) const { return dy * (y + T(1)); }
};

/// v is x.
template <typename T>
struct Log1p {
  FLOW_INLINE T operator()(T x) const { return std::log1p(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy / (T(1) + x); }
};

/// v is y.
template <typename T>
struct Reciprocal {
  FLOW_INLINE T operator()(T x) const { return T(1) / x; }
  FLOW_INLINE T gradient(T dy, T y) const { return -dy * y * y; }
};

/// v is x.
template <typename T>
struct Sinh {
  FLOW_INLINE T operator()(T x) const { return std::sinh(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy * std::cosh(x); }
};

/// v is y.
template <typename T>
struct Tan {
  FLOW_INLINE T operator()(T x) const { return std::tan(x); }
  FLOW_INLINE T gradient(T dy, T y) const { return dy * (T(1) + y * y); }
};

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

/// v is x. `Near`: the same where no x is_far, of arithmetic alone.
template <typename T>
struct Cos {
  struct Near {
    FLOW_INLINE T operator()(T x) const { return math::cos_near(x); }
    FLOW_INLINE T gradient(T dy, T x) const { return -dy * math::sin_near(x); }
  };
  FLOW_INLINE T operator()(T x) const { return math::cos(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return -dy * math::sin(x); }
};

/// As Cos.
template <typename T>
struct Sin {
  struct Near {
    FLOW_INLINE T operator()(T x) const { return math::sin_near(x); }
    FLOW_INLINE T gradient(T dy, T x) const { return dy * math::cos_near(x); }
  };
  FLOW_INLINE T operator()(T x) const { return math::sin(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy * math::cos(x); }
};

/// v is x.
template <typename T>
struct Erf {
  static constexpr T kSlope = T(1.12837916709551257390);  // 2 / sqrt(pi)
  FLOW_INLINE T operator()(T x) const { return math::erf(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy * (kSlope * math::exp(-x * x)); }
};

/// v is y.
template <typename T>
struct Exp {
  FLOW_INLINE T operator()(T x) const { return math::exp(x); }
  FLOW_INLINE T gradient(T dy, T y) const { return dy * y; }
};

/// v is x.
template <typename T>
struct Log {
  FLOW_INLINE T operator()(T x) const { return math::log(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy / x; }
};

/// v is y: -1/2 x^(-3/2) = -1/2 y^3.
template <typename T>
struct Rsqrt {
  FLOW_INLINE T operator()(T x) const { return T(1) / math::sqrt(x); }
  FLOW_INLINE T gradient(T dy, T y) const { return T(-0.5) * dy * y * y * y; }
};

/// v is y.
template <typename T>
struct Sqrt {
  FLOW_INLINE T operator()(T x) const { return math::sqrt(x); }
  FLOW_INLINE T gradient(T dy, T y) const { return T(0.5) * dy / y; }
};

}  // namespace flow::functions
