// The functors of binary ops and of their gradients (listed in binary.def), in a form that all
// kinds of loops can inline.
#pragma once

#include "ops/unary/unary.h"

namespace flow::functions {

// Functors of floats. The macro arguments are the functor's name, the names of its operands, and
// its value.
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

// Functors of floats or integers. Integers wrap around, as in NumPy.
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

// CPUs trap if an integer is divided by 0, or if the smallest integer is divided by -1.

template <typename T>
FLOW_INLINE bool is_minus_one(T x) {
  return std::is_signed_v<T> && x == static_cast<T>(-1);
}

/// The remainder of a division that rounds toward 0. It is 0 for integers divided by 0.
template <typename T>
struct Fmod {
  FLOW_INLINE T operator()(T a, T b) const {
    if constexpr (!std::is_integral_v<T>)
      return std::fmod(a, b);
    else
      return b == T{0} || is_minus_one(b) ? T{0} : static_cast<T>(a % b);
  }
};

/// Returns true if rounding the quotient down, instead of toward 0, decreases it by one and adds b
/// to the remainder.
template <typename T>
FLOW_INLINE bool rounds_down(T remainder, T b) {
  return remainder != T{0} && is_negative(remainder) != is_negative(b);
}

/// The remainder of a division that rounds down. A zero has the sign of b.
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

/// The quotient rounded down. For floats it is computed from the remainder, which is exact, because
/// a / b may be rounded up to an integer.
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

/// The larger of two numbers, or NaN if either is NaN.
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

/// The power a^b. For integers with a negative exponent, it is 1 / a^-b rounded toward 0, and 0 if
/// a is 0.
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

/// The gradient with respect to a. It is 0 if b is 0, because the power is then constant.
FLOW_PAIR_GRADIENT(PowGradientBase, a, b, b == T(0) ? T(0) : dy * (b * std::pow(a, b - T(1))));

/// The gradient with respect to b. It is 0 if a is 0 and b is not negative, because the power is
/// then 0 for all nearby b.
FLOW_PAIR_GRADIENT(PowGradientExponent, a, b,
                   a == T(0) && b >= T(0) ? T(0) : dy * (std::pow(a, b) * std::log(a)));

FLOW_PAIR(SquaredDifference, a, b, (a - b) * (a - b));

// The gradients of differences are gradients with respect to a.

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

/// -z ln s - (1 - z) ln(1 - s) with s = sigmoid(x), which equals max(x, 0) - x z + ln(1 + e^-|x|).
FLOW_PAIR(SigmoidCrossEntropy, z, x, math::softplus(x) - x * z);

/// The gradient with respect to x.
FLOW_PAIR_GRADIENT(SigmoidCrossEntropyGradient, z, x, (math::sigmoid(x) - z) * dy);

// Functors of two integers of any dtypes, which compare by value; this works because the widest
// dtype is signed.

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
