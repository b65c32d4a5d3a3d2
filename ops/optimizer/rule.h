// Common parts of the optimizers' rules. A rule contains the numbers of an update and defines twice
// how the update changes an element: as kernels round (`Move`, on all devices), and as the formula
// states, in float64 (`exact`, which the CPU uses for float64 and against which kernels are
// checked).
//
//   template <typename T> struct Move { void operator()(T g, T (&values)[kMoved]) const; };
//   template <typename T> Move<T> at(double scaled, const UpdateCall& call) const;
//   void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const;
//
// `values` are the variable and its slots, which are replaced by their new values. `scaled` is the
// factor by which the gradient g is multiplied. If a rule has a function idle<T>(call), a call for
// which it returns true leaves everything unchanged.
#pragma once

#include <cmath>

#include "ops/core/shared_attributes.h"
#include "ops/optimizer/optimizer_math.h"
#include "ops/optimizer/updates.h"
#include "runtime/base/vector_math.h"

namespace flow::optimizers {

using ops::Attributes, ops::OpSpec;

/// Returns an attribute that not all updates have, or `otherwise` if it is absent.
inline double number_or(const Attributes& attributes, std::string_view name, double otherwise) {
  const ops::Attribute* found = attributes.find(name);
  return found ? std::get<double>(*found) : otherwise;
}

/// The values of a call that an update reads.
struct UpdateCall {
  int64_t step;  // counted from 0
  double rate;   // the learning rate of the variable
};

/// The values that every update has.
struct Rule {
  double scale, rate_scale;  // factors of the gradient and of the learning rate
  double l2;                 // an L2 penalty adds l2 w to the scaled gradient; 0 without one

  explicit Rule(const Attributes& attributes)
      : scale(number_or(attributes, "scale", 1)),
        rate_scale(number_or(attributes, "rate_scale", 1)),
        l2(ops::l2_of(attributes)) {}

  template <typename Call>
  FLOW_HOST_DEVICE UpdateCall seen(const Call& call) const {
    return {call.step, call.learning_rate * rate_scale};
  }
};

/// Returns true if the rule leaves everything unchanged in this call.
template <typename T, typename R>
FLOW_HOST_DEVICE bool is_idle(const R& rule, const UpdateCall& call) {
  if constexpr (requires { rule.template idle<T>(call); }) return rule.template idle<T>(call);
  return false;
}

/// Returns -lr weight_decay. A move adds the variable times this number to the variable.
template <typename T>
FLOW_HOST_DEVICE T decay_of(const UpdateCall& call, double weight_decay) {
  return static_cast<T>(-call.rate * weight_decay);
}

/// The values of Adam and related optimizers, which keep means m of gradients and v of their
/// squares.
struct MeansRule : Rule {
  static constexpr int kMoved = 3;
  double beta1, beta2, epsilon, weight_decay;

  explicit MeansRule(const Attributes& attributes)
      : Rule(attributes),
        beta1(attributes.get<double>("beta1")),
        beta2(attributes.get<double>("beta2")),
        epsilon(attributes.get<double>("epsilon")),
        weight_decay(number_or(attributes, "weight_decay", 0)) {}

  /// Moves the means. `rest1` is 1 - beta1 and `rest2` is 1 - beta2.
  template <typename T>
  struct Means {
    T scale, beta1, rest1, beta2, rest2;

    /// Moves both means and returns the scaled gradient.
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
  /// Moves both means in float64. g is the scaled gradient.
  template <int kAll>
  void move_means(double g, double (&values)[kAll]) const {
    values[1] = beta1 * values[1] + (1 - beta1) * g;
    values[2] = beta2 * values[2] + (1 - beta2) * g * g;
  }
};

}  // namespace flow::optimizers
