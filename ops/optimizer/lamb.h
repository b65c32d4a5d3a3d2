// LAMB, whose rate depends on the norms of a variable and of the movement that Adam would add to
// it.
#pragma once

#include "ops/optimizer/layerwise.h"

namespace flow::optimizers {

/// The terms (see layerwise.h) are the variable and its movement. The means m and v move before the
/// movement is computed.
struct Lamb : MeansRule {
  static constexpr int kWritten = 1;
  static constexpr bool kMovesSlots = true;
  using MeansRule::MeansRule;

  template <typename T>
  struct Movement {
    T mean_correction, root_correction, epsilon, weight_decay;
    FLOW_INLINE T operator()(const T (&values)[kMoved]) const {
      return mean_correction * values[1] / (root_correction * std::sqrt(values[2]) + epsilon) +
             weight_decay * values[0];
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Movement<T> movement(const UpdateCall& call) const {
    return {static_cast<T>(1 / gathered(beta1, true, call.step)),
            static_cast<T>(1 / std::sqrt(gathered(beta2, true, call.step))),
            static_cast<T>(epsilon), static_cast<T>(weight_decay)};
  }
  double exact_movement(const double (&values)[kMoved], const UpdateCall& call) const {
    const double mean = values[1] / gathered(beta1, true, call.step);
    const double root = std::sqrt(values[2] / gathered(beta2, true, call.step));
    return mean / (root + epsilon) + weight_decay * values[0];
  }

  template <typename T>
  struct Terms {
    Means<T> means;
    Movement<T> movement;
    FLOW_INLINE Pair<T> operator()(T g, T (&values)[kMoved]) const {
      means.move(g, values);
      return {values[0], movement(values)};
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Terms<T> terms(double scaled, const UpdateCall& call) const {
    return {means<T>(scaled), movement<T>(call)};
  }
  Pair<double> exact_terms(double g, double scaled, double (&values)[kMoved],
                           const UpdateCall& call) const {
    move_means(scaled * g, values);
    return {values[0], exact_movement(values, call)};
  }

  FLOW_HOST_DEVICE double rate(TwoSums sums, double, double, const UpdateCall& call) const {
    const bool any = sums.first > 0 && sums.second > 0;
    return call.rate * (any ? std::sqrt(sums.first) / std::sqrt(sums.second) : 1);
  }

  template <typename T>
  struct Move {
    Movement<T> movement;
    T negative_rate;
    FLOW_INLINE void operator()(T, T (&values)[kMoved]) const {
      values[0] = values[0] + negative_rate * movement(values);
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double, double rate, const UpdateCall& call) const {
    return {movement<T>(call), static_cast<T>(-rate)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], double rate,
             const UpdateCall& call) const {
    move_means(scaled * g, values);
    values[0] -= rate * exact_movement(values, call);
  }
};

inline OpSpec lamb_update() {
  return ops::update_spec(
      "lamb_update", "One step of LAMB (You et al., 2020).",
      "m, v as in adam_update; a = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + "
      "epsilon) + weight_decay w;\nw = w - lr (|w| / |a|) a, ratio 1 where a norm is 0",
      {"m", "v"}, {ops::beta1(), ops::beta2(), ops::update_epsilon(), ops::weight_decay()}, 16);
}

}  // namespace flow::optimizers
