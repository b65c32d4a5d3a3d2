// Nadam: Adam with Nesterov momentum.
#pragma once

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

struct Nadam : MeansRule {
  double growth;

  explicit Nadam(const Attributes& attributes)
      : MeansRule(attributes), growth(std::pow(0.96, attributes.get<double>("momentum_decay"))) {}

  template <typename T>
  struct Move {
    Means<T> means;
    T gradient_rate, mean_rate;  // both are negative
    T correction, epsilon, decay;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = means.move(g, values);
      const T root = correction * std::sqrt(values[2]) + epsilon;
      values[0] =
          values[0] + ((gradient_rate * scaled + mean_rate * values[1]) / root + decay * values[0]);
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    const NadamFactors factors = nadam_factors(beta1, growth, call.step);
    return {means<T>(scaled),
            static_cast<T>(-call.rate * factors.gradient),
            static_cast<T>(-call.rate * factors.mean),
            static_cast<T>(1 / std::sqrt(gathered(beta2, true, call.step))),
            static_cast<T>(epsilon),
            decay_of<T>(call, weight_decay)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    auto& [w, m, v] = values;
    g *= scaled;
    move_means(g, values);
    const NadamFactors factors = nadam_factors(beta1, growth, call.step);
    const double root = std::sqrt(v / gathered(beta2, true, call.step)) + epsilon;
    const double direction = (factors.gradient * g + factors.mean * m) / root;
    w = w - call.rate * direction - call.rate * weight_decay * w;
  }
};

inline OpSpec nadam_update() {
  return ops::update_spec(
      "nadam_update", "One step of Nadam (Dozat, 2016).",
      "m, v as in adam_update; u_t = beta1 (1 - 0.96^(t momentum_decay) / 2), p_t = u_1 ... u_t; w "
      "= w - lr ((1 - u_t) / (1 - p_t) scale g + u_t+1 / (1 - p_t+1) m) / (sqrt(v / (1 - "
      "beta2^t)) + epsilon) - lr weight_decay w",
      {"m", "v"},
      {ops::beta1(), ops::beta2(), ops::update_epsilon(),
       ops::required_magnitude("momentum_decay", "rate at which the momentum grows to beta1"),
       ops::weight_decay()},
      15, {ops::l2_in_plans()});
}

}  // namespace flow::optimizers
