// LARS, whose rate depends on the norms of a variable and of its gradient.
#pragma once

#include "ops/optimizer/layerwise.h"

namespace flow::optimizers {

/// The terms (see layerwise.h) are the variable and the gradient before scaling.
struct Lars : Rule {
  static constexpr int kMoved = 2, kWritten = 2;
  static constexpr bool kMovesSlots = false;
  double momentum, epsilon, coefficient, weight_decay;

  explicit Lars(const Attributes& attributes)
      : Rule(attributes),
        momentum(attributes.get<double>("momentum_beta")),
        epsilon(attributes.get<double>("epsilon")),
        coefficient(attributes.get<double>("lars_coefficient")),
        weight_decay(attributes.get<double>("weight_decay")) {}

  template <typename T>
  struct Terms {
    FLOW_INLINE Pair<T> operator()(T g, T (&values)[kMoved]) const { return {values[0], g}; }
  };
  template <typename T>
  FLOW_HOST_DEVICE Terms<T> terms(double, const UpdateCall&) const {
    return {};
  }
  Pair<double> exact_terms(double g, double, double (&values)[kMoved], const UpdateCall&) const {
    return {values[0], g};
  }

  /// Returns the rate. The norms are root mean squares.
  FLOW_HOST_DEVICE double rate(TwoSums sums, double scaled, double elements,
                               const UpdateCall& call) const {
    const double size = std::sqrt(sums.first / elements);
    const double slope = std::abs(scaled) * std::sqrt(sums.second / elements);
    const bool any = size > 0 && slope > 0;
    return call.rate * (any ? coefficient * size / (slope + weight_decay * size + epsilon) : 1);
  }

  template <typename T>
  struct Move {
    T scale, momentum, weight_decay, negative_rate;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      values[1] = momentum * values[1] + negative_rate * (scale * g + weight_decay * values[0]);
      values[0] = values[0] + values[1];
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, double rate, const UpdateCall&) const {
    return {static_cast<T>(scaled), static_cast<T>(momentum), static_cast<T>(weight_decay),
            static_cast<T>(-rate)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], double rate,
             const UpdateCall&) const {
    auto& [w, m] = values;
    m = momentum * m - rate * (scaled * g + weight_decay * w);
    w += m;
  }
};

inline OpSpec lars_update() {
  return ops::update_spec(
      "lars_update", "One step of LARS (You et al., 2017).",
      "r = lr lars_coefficient |w| / (|scale g| + weight_decay |w| + epsilon), lr where a norm "
      "is 0;\nm = momentum_beta m - r (scale g + weight_decay w); w = w + m, norms as root "
      "mean squares",
      {"momentum"},
      {ops::required_number("momentum_beta", "momentum coefficient"), ops::update_epsilon(),
       ops::required_number("lars_coefficient", "trust coefficient on the norm ratio"),
       ops::weight_decay()},
      8);
}

}  // namespace flow::optimizers
