// The functors of binary ops and of their gradients (binary.def lists them), as loops of every kind
// inline them.
#pragma once

#include "ops/unary/unary.h"

namespace flow::functions {

// Of floats: the operands are called a and b, or otherwise.
#define FLOW_PAIR(Function, a, b, value)                       \
  template <typename T>                                        \
  struct Function {                                            \
    FLOW_INLINE T operator()(T a, T b) const { return value; } \
  }
#define FLOW_PAIR_GRADIENT(Function, a, b, value)                    \
  template <typename T>                                              \
  struct Function {                                                  \
    FLOW_INLINE T operator()(T dy, T a, T b) const { return value; } \
  }

// Integers wrap around, as NumPy's do.
#define FLOW_WRAPPING(Function, op)                                                  \
  template <typename T>                                                              \
  struct Function {                                                                  \
    FLOW_INLINE T operator()(T a, T b) const {                                       \
      if constexpr (std::is_integral_v<T>)                                           \
        return static_cast<T>(static_cast<uint64_t>(a) op static_cast<uint64_t>(b)); \
      else                                                                           \
        return a op b;                                                               \
    }                                                                                \
  }

FLOW_WRAPPING(Add, +);
FLOW_WRAPPING(Subtract, -);
FLOW_WRAPPING(Multiply, *);
FLOW_PAIR(Divide, a, b, a / b);

// CPUs trap where integers are divided by 0, and where the least one is divided by -1.

template <typename T>
FLOW_INLINE bool is_minus_one(T x) {
  return std::is_signed_v<T> && x == static_cast<T>(-1);
}

/// The remainder of a division that rounds toward 0; 0 where integers are divided by 0.
template <typename T>
struct Fmod {
  FLOW_INLINE T operator()(T a, T b) const {
    if constexpr (!std::is_integral_v<T>)
      return std::fmod(a, b);
    else
      return b == T{0} || is_minus_one(b) ? T{0} : static_cast<T>(a % b);
  }
};

/// Does a division that rounds down take one off the quotient, and leave b more?
template <typename T>
FLOW_INLINE bool rounds_down(T remainder, T b) {
  return remainder != T{0} && is_negative(remainder) != is_negative(b);
}

/// A zero has the sign of b.
template <typename T>
struct Mod {
  FLOW_INLINE T operator()(T a, T b) const {
    const T remainder = Fmod<T>{}(a, b);
    if (rounds_down(remainder, b)) return static_cast<T>(remainder + b);
    if constexpr (std::is_floating_point_v<T>)
      return remainder == T{0} ? std::copysign(remainder, b) : remainder;
    else
      return remainder;
  }
};

/// Of floats, by the remainder, which is exact: a / b may be rounded up to a whole number.
template <typename T>
struct FloorDivide {
  FLOW_INLINE T operator()(T a, T b) const {
    const T remainder = Fmod<T>{}(a, b), less = rounds_down(remainder, b) ? T{1} : T{0};
    if constexpr (std::is_integral_v<T>) {
      if (b == T{0}) return T{0};
      return is_minus_one(b) ? Negative<T>{}(a) : static_cast<T>(a / b - less);
    } else {
      const T quotient = a / b, whole = std::rint((a - remainder) / b) - less;
      const T signed_whole = whole == T{0} ? std::copysign(whole, quotient) : whole;
      return b == T{0} ? quotient : signed_whole;
    }
  }
};

/// NaN where either is.
template <typename T>
struct Maximum {
  FLOW_INLINE T operator()(T a, T b) const {
    const T larger = a >= b ? a : b;
    return a == a ? larger : a;
  }
};

template <typename T>
struct Minimum {
  FLOW_INLINE T operator()(T a, T b) const {
    const T smaller = a <= b ? a : b;
    return a == a ? smaller : a;
  }
};

/// Of integers with a negative exponent, the quotient cut off to an integer, and 0 of 0.
template <typename T>
struct Pow {
  FLOW_INLINE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return is_negative(b) ? reciprocal(a, b) : power(a, b);
    else
      return std::pow(a, b);
  }

 private:
  FLOW_INLINE static T reciprocal(T a, T b) {
    if (a == T{1}) return a;
    if (a != static_cast<T>(-1)) return T{0};
    return b % 2 == 0 ? T{1} : a;
  }
  FLOW_INLINE static T power(T a, T b) {
    uint64_t result = 1, square = static_cast<uint64_t>(a);
    for (auto left = static_cast<uint64_t>(b); left > 0; left >>= 1) {
      if (left & 1) result *= square;
      square *= square;
    }
    return static_cast<T>(result);
  }
};

/// With respect to a; 0 of a constant 1.
FLOW_PAIR_GRADIENT(PowGradientBase, a, b, b == T(0) ? T(0) : dy * (b * std::pow(a, b - T(1))));

/// With respect to b; 0 where the power is 0 for all b around.
FLOW_PAIR_GRADIENT(PowGradientExponent, a, b,
                   a == T(0) && b >= T(0) ? T(0) : dy * (std::pow(a, b) * std::log(a)));

FLOW_PAIR(SquaredDifference, a, b, (a - b) * (a - b));

// The gradients of differences are those with respect to a.

FLOW_PAIR_GRADIENT(SquaredDifferenceGradient, a, b, (T(2) * (a - b)) * dy);

FLOW_PAIR(AbsoluteDifference, a, b, Abs<T>{}(a - b));

template <typename T>
struct AbsoluteDifferenceGradient {
  FLOW_INLINE T operator()(T dy, T a, T b) const {
    const T not_above = a < b ? -dy : T(0);
    return a > b ? dy : not_above;
  }
};

/// d^2 / (2 beta) for a difference d below beta, else d - beta / 2.
template <typename T>
struct SmoothL1 {
  static constexpr std::tuple kAttributes{"beta"};
  T beta;
  FLOW_INLINE T operator()(T a, T b) const {
    const T d = Abs<T>{}(a - b), near = T(0.5) * d * d / beta, far = d - T(0.5) * beta;
    return d < beta ? near : far;
  }
};

template <typename T>
struct SmoothL1Gradient {
  static constexpr std::tuple kAttributes{"beta"};
  T beta;
  FLOW_INLINE T operator()(T dy, T a, T b) const {
    const T d = a - b, near = dy * (d / beta);
    const T above = d >= beta ? dy : near;
    return d <= -beta ? -dy : above;
  }
};

/// -z ln s - (1 - z) ln(1 - s) with s = sigmoid(x), which is max(x, 0) - x z + ln(1 + e^-|x|).
FLOW_PAIR(SigmoidCrossEntropy, z, x, math::softplus(x) - x * z);

/// With respect to x.
FLOW_PAIR_GRADIENT(SigmoidCrossEntropyGradient, z, x, (math::sigmoid(x) - z) * dy);

// Integers of any two dtypes compare by value: the widest are signed.

#define FLOW_COMPARED(Function, op)               \
  struct Function {                               \
    template <typename A, typename B>             \
    FLOW_INLINE bool operator()(A a, B b) const { \
      return a op b;                              \
    }                                             \
  }
FLOW_COMPARED(Equal, ==);
FLOW_COMPARED(NotEqual, !=);
FLOW_COMPARED(Greater, >);
FLOW_COMPARED(GreaterEqual, >=);
FLOW_COMPARED(Less, <);
FLOW_COMPARED(LessEqual, <=);

struct And {
  FLOW_INLINE bool operator()(bool a, bool b) const { return a & b; }
};

struct Or {
  FLOW_INLINE bool operator()(bool a, bool b) const { return a | b; }
};

struct Choose {
  template <typename T>
  FLOW_INLINE T operator()(bool condition, T x, T y) const {
    return condition ? x : y;
  }
};

#undef FLOW_PAIR
#undef FLOW_PAIR_GRADIENT
#undef FLOW_WRAPPING
#undef FLOW_COMPARED

}  // namespace flow::functions
