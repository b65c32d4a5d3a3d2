// Rectified Adam, whose rate depends on how well the variance is known.
#pragma once

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

struct Radam : MeansRule {
  using MeansRule::MeansRule;

  template <typename T>
  struct Move {
    Means<T> means;
    T negative_rate, epsilon, decay;
    bool rectified;  // if false, the rate does not depend on v
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      means.move(g, values);
      T moved = negative_rate * values[1];
      if (rectified) moved = moved / (std::sqrt(values[2]) + epsilon);
      values[0] = values[0] + (moved + decay * values[0]);
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    const double factor = rectification(beta2, call.step);
    double rate = call.rate / gathered(beta1, true, call.step);
    if (factor > 0) rate *= factor * std::sqrt(gathered(beta2, true, call.step));
    return {means<T>(scaled), static_cast<T>(-rate), static_cast<T>(epsilon),
            decay_of<T>(call, weight_decay), factor > 0};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    auto& [w, m, v] = values;
    move_means(scaled * g, values);
    double direction = m / gathered(beta1, true, call.step);
    if (const double factor = rectification(beta2, call.step); factor > 0)
      direction *= factor * std::sqrt(gathered(beta2, true, call.step)) / (std::sqrt(v) + epsilon);
    w = w - call.rate * direction - call.rate * weight_decay * w;
  }
};

inline OpSpec radam_update() {
  return ops::update_spec(
      "radam_update", "One step of rectified Adam (Liu et al., 2020).",
      "m, v as in adam_update; a = 2 / (1 - beta2) - 1, l = a - 2 t beta2^t / (1 - beta2^t);\n"
      "r = sqrt((l - 4) (l - 2) a / ((a - 4) (a - 2) l)) sqrt(1 - beta2^t) / (sqrt(v) + epsilon) "
      "where l > 5, else 1;\nw = w - lr m / (1 - beta1^t) r - lr weight_decay w",
      {"m", "v"}, {ops::beta1(), ops::beta2(), ops::update_epsilon(), ops::weight_decay()}, 12,
      {ops::l2_in_plans()});
}

}  // namespace flow::optimizers
