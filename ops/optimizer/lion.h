// Lion, which moves variables by the sign of a mean of gradients.
#pragma once

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

struct Lion : Rule {
  static constexpr int kMoved = 2;
  double beta1, beta2, weight_decay;

  explicit Lion(const Attributes& attributes)
      : Rule(attributes),
        beta1(attributes.get<double>("beta1")),
        beta2(attributes.get<double>("beta2")),
        weight_decay(attributes.get<double>("weight_decay")) {}

  template <typename T>
  struct Move {
    T scale, beta1, rest1, beta2, rest2;
    T negative_rate, decay;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T mixed = beta1 * values[1] + rest1 * scaled;
      const T direction = mixed > 0 ? T{1} : mixed < 0 ? T{-1} : mixed;  // keeps NaN
      values[0] = values[0] + (negative_rate * direction + decay * values[0]);
      values[1] = beta2 * values[1] + rest2 * scaled;
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    return {static_cast<T>(scaled),         static_cast<T>(beta1),     static_cast<T>(1 - beta1),
            static_cast<T>(beta2),          static_cast<T>(1 - beta2), static_cast<T>(-call.rate),
            decay_of<T>(call, weight_decay)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    auto& [w, m] = values;
    g *= scaled;
    const double mixed = beta1 * m + (1 - beta1) * g;
    const double direction = mixed > 0 ? 1 : mixed < 0 ? -1 : mixed;
    w = w - call.rate * direction - call.rate * weight_decay * w;
    m = beta2 * m + (1 - beta2) * g;
  }
};

inline OpSpec lion_update() {
  return ops::update_spec(
      "lion_update", "One step of Lion (Chen et al., 2023).",
      "w = w - lr sign(beta1 m + (1 - beta1) scale g) - lr weight_decay w; m = beta2 m + (1 - "
      "beta2) scale g",
      {"m"},
      {ops::required_fraction("beta1", "share of m in the sign"),
       ops::required_fraction("beta2", "decay rate of m"), ops::weight_decay()},
      10);
}

}  // namespace flow::optimizers
