// Gradient descent, with and without momentum.
#pragma once

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

struct Sgd : Rule {
  static constexpr int kMoved = 1;
  using Rule::Rule;

  /// The product is rounded before it is added.
  template <typename T>
  struct Move {
    T a;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const { values[0] = values[0] + a * g; }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    return {static_cast<T>(-call.rate * scaled)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    values[0] += -call.rate * scaled * g;
  }
};

inline OpSpec sgd_update() {
  OpSpec spec = ops::update_spec("sgd_update", "One step of gradient descent.",
                                 "w = w + (-lr scale) g, the factor rounded once", {}, {}, 2,
                                 {ops::l2_in_plans()});
  spec.epilogue = ops::Epilogue::kUpdate;
  return spec;
}

inline OpSpec sparse_sgd_update() {
  return ops::sparse_update("sparse_sgd_update",
                            "One step of gradient descent for the rows of a sparse gradient.",
                            sgd_update());
}

struct Momentum : Rule {
  static constexpr int kMoved = 2;
  double momentum, weight_decay;
  bool nesterov;

  explicit Momentum(const Attributes& attributes)
      : Rule(attributes),
        momentum(attributes.get<double>("momentum")),
        weight_decay(attributes.get<double>("weight_decay")),
        nesterov(attributes.get<bool>("nesterov")) {}

  template <typename T>
  struct Move {
    T scale, momentum, negative_rate, decay;
    bool nesterov;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T moved = momentum * values[1] + scaled;
      const T direction = nesterov ? scaled + momentum * moved : moved;
      values[0] = values[0] + (negative_rate * direction + decay * values[0]);
      values[1] = moved;
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    return {static_cast<T>(scaled), static_cast<T>(momentum), static_cast<T>(-call.rate),
            decay_of<T>(call, weight_decay), nesterov};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    auto& [w, m] = values;
    g *= scaled;
    m = momentum * m + g;
    const double direction = nesterov ? g + momentum * m : m;
    w = w - call.rate * direction - call.rate * weight_decay * w;
  }
};

inline OpSpec momentum_update() {
  return ops::update_spec(
      "momentum_update", "One step of gradient descent with momentum.",
      "m = momentum m + scale g; w = w - lr m - lr weight_decay w (nesterov: lr (scale g + "
      "momentum m))",
      {"momentum"},
      {ops::required_number("momentum", "momentum coefficient"),
       {"nesterov", ops::AttributeType::kBool, "false", "use Nesterov momentum"},
       ops::weight_decay()},
      4, {ops::l2_in_plans()});
}

}  // namespace flow::optimizers
