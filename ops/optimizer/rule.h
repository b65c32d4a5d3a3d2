// What the rules of optimizers have in common. A rule has the numbers of an update, and says twice
// what the update makes of an element: as kernels round (`Move`, on all devices), and as the
// formula stands, in float64 (`exact`: what the CPU computes in float64, and what judges the
// kernels).
//
//   template <typename T> struct Move { void operator()(T g, T (&values)[kMoved]) const; };
//   template <typename T> Move<T> at(double scaled, const UpdateCall& call) const;
//   void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const;
//
// `values` are the variable and its slots, and become what follows them. `scaled` is what the
// gradient g is multiplied by. A rule with a function idle<T>(call) leaves all as it is in a call
// for which that is true.
#pragma once

#include <cmath>

#include "ops/core/shared_attributes.h"
#include "ops/optimizer/optimizer_math.h"
#include "ops/optimizer/updates.h"
#include "runtime/base/vector_math.h"

namespace flow::optimizers {

using ops::Attributes, ops::OpSpec;

/// An attribute that not all updates have.
inline double number_or(const Attributes& attributes, std::string_view name, double otherwise) {
  const ops::Attribute* found = attributes.find(name);
  return found ? std::get<double>(*found) : otherwise;
}

/// A call as an update sees it.
struct UpdateCall {
  int64_t step;  // counted from 0
  double rate;   // the learning rate of the variable
};

/// What every update has.
struct Rule {
  double scale, rate_scale;  // of the gradient, and of the learning rate
  double l2;                 // an L2 penalty adds l2 w to the scaled gradient; 0: none

  explicit Rule(const Attributes& attributes)
      : scale(number_or(attributes, "scale", 1)),
        rate_scale(number_or(attributes, "rate_scale", 1)),
        l2(ops::l2_of(attributes)) {}

  template <typename Call>
  FLOW_HOST_DEVICE UpdateCall seen(const Call& call) const {
    return {call.step, call.learning_rate * rate_scale};
  }
};

/// Does the rule leave all as it is in that call?
template <typename T, typename R>
FLOW_HOST_DEVICE bool is_idle(const R& rule, const UpdateCall& call) {
  if constexpr (requires { rule.template idle<T>(call); }) return rule.template idle<T>(call);
  return false;
}

/// What a move adds to a variable decays it by that: -lr weight_decay.
template <typename T>
FLOW_HOST_DEVICE T decay_of(const UpdateCall& call, double weight_decay) {
  return static_cast<T>(-call.rate * weight_decay);
}

/// The numbers of Adam and its relatives, which keep means m of gradients and v of their squares.
struct MeansRule : Rule {
  static constexpr int kMoved = 3;
  double beta1, beta2, epsilon, weight_decay;

  explicit MeansRule(const Attributes& attributes)
      : Rule(attributes),
        beta1(attributes.get<double>("beta1")),
        beta2(attributes.get<double>("beta2")),
        epsilon(attributes.get<double>("epsilon")),
        weight_decay(number_or(attributes, "weight_decay", 0)) {}

  /// Moves the means; rest: 1 - beta.
  template <typename T>
  struct Means {
    T scale, beta1, rest1, beta2, rest2;

    /// The scaled gradient.
    template <int kAll>
    FLOW_INLINE T move(T g, T (&values)[kAll]) const {
      const T scaled = scale * g;
      values[1] = beta1 * values[1] + rest1 * scaled;
      values[2] = beta2 * values[2] + rest2 * (scaled * scaled);
      return scaled;
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Means<T> means(double scaled) const {
    return {static_cast<T>(scaled), static_cast<T>(beta1), static_cast<T>(1 - beta1),
            static_cast<T>(beta2), static_cast<T>(1 - beta2)};
  }
  /// The same in float64; g is the scaled gradient.
  template <int kAll>
  void move_means(double g, double (&values)[kAll]) const {
    values[1] = beta1 * values[1] + (1 - beta1) * g;
    values[2] = beta2 * values[2] + (1 - beta2) * g * g;
  }
};

}  // namespace flow::optimizers
