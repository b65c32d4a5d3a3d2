// Adagrad and Adadelta, which scale updates by the history of squared gradients.
#pragma once

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

struct Adagrad : Rule {
  static constexpr int kMoved = 2;
  double epsilon;

  explicit Adagrad(const Attributes& attributes)
      : Rule(attributes), epsilon(attributes.get<double>("epsilon")) {}

  template <typename T>
  struct Move {
    T scale, negative_rate, epsilon;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T squares = values[1] + scaled * scaled;
      values[0] = values[0] + negative_rate * scaled / (std::sqrt(squares) + epsilon);
      values[1] = squares;
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    return {static_cast<T>(scaled), static_cast<T>(-call.rate), static_cast<T>(epsilon)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    auto& [w, sum] = values;
    g *= scaled;
    sum += g * g;
    w -= call.rate * g / (std::sqrt(sum) + epsilon);
  }
};

inline OpSpec adagrad_update() {
  return ops::update_spec("adagrad_update", "One step of Adagrad (Duchi et al., 2011).",
                          "sum = sum + (scale g)^2; w = w - lr scale g / (sqrt(sum) + epsilon)",
                          {"sum"}, {ops::update_epsilon()}, 7, {ops::l2_in_plans()});
}

inline OpSpec sparse_adagrad_update() {
  return ops::sparse_update("sparse_adagrad_update",
                            "One step of Adagrad for the rows of a sparse gradient.",
                            adagrad_update());
}

struct Adadelta : Rule {
  static constexpr int kMoved = 3;
  double decay, epsilon;

  explicit Adadelta(const Attributes& attributes)
      : Rule(attributes),
        decay(attributes.get<double>("decay_rate")),
        epsilon(attributes.get<double>("epsilon")) {}

  template <typename T>
  struct Move {
    T scale, decay, rest, negative_rate, epsilon;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T mean = rest * (scaled * scaled) + decay * values[1];
      const T moved = std::sqrt(values[2] + epsilon) / std::sqrt(mean + epsilon) * scaled;
      values[0] = values[0] + negative_rate * moved;
      values[1] = mean;
      values[2] = rest * (moved * moved) + decay * values[2];
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    return {static_cast<T>(scaled), static_cast<T>(decay), static_cast<T>(1 - decay),
            static_cast<T>(-call.rate), static_cast<T>(epsilon)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    auto& [w, square, delta] = values;
    g *= scaled;
    square = decay * square + (1 - decay) * g * g;
    const double moved = std::sqrt(delta + epsilon) / std::sqrt(square + epsilon) * g;
    delta = decay * delta + (1 - decay) * moved * moved;
    w -= call.rate * moved;
  }
};

inline OpSpec adadelta_update() {
  return ops::update_spec(
      "adadelta_update", "One step of Adadelta (Zeiler, 2012).",
      "square = decay_rate square + (1 - decay_rate) (scale g)^2; d = sqrt(delta + epsilon) / "
      "sqrt(square + epsilon) scale g; delta = decay_rate delta + (1 - decay_rate) d^2; w = w - lr "
      "d",
      {"square", "delta"}, {ops::decay_rate(), ops::update_epsilon()}, 15, {ops::l2_in_plans()});
}

}  // namespace flow::optimizers
