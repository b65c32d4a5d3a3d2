// The functors of activations: unary ops that only networks use; see unary.h.
#pragma once

#include "ops/unary/unary.h"

namespace flow::functions {

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

/// x times the normal distribution's share below x; v is x.
template <typename T>
struct GeluErf {
  static constexpr T kHeight = T(0.39894228040143267794);  // 1 / sqrt(2 pi)
  FLOW_INLINE T operator()(T x) const { return x * math::normal(x).share; }
  FLOW_INLINE T gradient(T dy, T x) const {
    const math::Normal<T> normal = math::normal(x);
    return dy * (normal.share + x * (kHeight * normal.bell));
  }
};

/// The same with the share (1 + tanh u) / 2 = sigmoid(2u), u a cubic in x; v is x.
template <typename T>
struct GeluTanh {
  // 2 sqrt(2/pi), and that times 0.044715.
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
struct LogSigmoid {
  FLOW_INLINE T operator()(T x) const { return -math::softplus(-x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy * math::sigmoid(-x); }
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

/// NaN of NaN, which passes the gradient; v is y.
template <typename T>
struct Relu {
  FLOW_INLINE T operator()(T x) const { return x <= T(0) ? T(0) : x; }
  FLOW_INLINE T gradient(T dy, T y) const { return y <= T(0) ? T(0) : dy; }
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

/// v is y.
template <typename T>
struct Sigmoid {
  FLOW_INLINE T operator()(T x) const { return math::sigmoid(x); }
  FLOW_INLINE T gradient(T dy, T y) const { return dy * (y * (T(1) - y)); }
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

/// v is x.
template <typename T>
struct Softplus {
  FLOW_INLINE T operator()(T x) const { return math::softplus(x); }
  FLOW_INLINE T gradient(T dy, T x) const { return dy * math::sigmoid(x); }
};

/// NaN of NaN; v is x.
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

/// v is y.
template <typename T>
struct Tanh {
  FLOW_INLINE T operator()(T x) const { return math::tanh(x); }
  FLOW_INLINE T gradient(T dy, T y) const { return dy * ((T(1) - y) * (T(1) + y)); }
};

/// NaN of NaN; v is x.
template <typename T>
struct Threshold {
  static constexpr std::tuple kAttributes{"threshold", "value"};
  T threshold, value;
  FLOW_INLINE T operator()(T x) const { return x <= threshold ? value : x; }
  FLOW_INLINE T gradient(T dy, T x) const { return x <= threshold ? T(0) : dy; }
};

}  // namespace flow::functions
