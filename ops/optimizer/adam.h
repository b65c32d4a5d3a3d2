// Adam, AMSGrad and lazy Adam.
#pragma once

#include <algorithm>

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

/// Adam with 3 arrays, and AMSGrad with 4. AMSGrad divides by the root of the largest v so far,
/// which is the last array.
template <int kArrays>
struct AdamRule : MeansRule {
  static constexpr int kMoved = kArrays;
  bool corrected;

  explicit AdamRule(const Attributes& attributes)
      : MeansRule(attributes), corrected(attributes.get<bool>("bias_correction")) {}

  template <typename T>
  struct Move {
    Means<T> means;
    T negative_rate;  // the negative rate divided by gathered(beta1)
    T correction;     // one over the root of gathered(beta2)
    T epsilon, decay;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      means.move(g, values);
      T& largest = values[kMoved - 1];
      largest = values[2] < largest ? largest : values[2];
      const T root = correction * std::sqrt(largest) + epsilon;
      values[0] = values[0] + (negative_rate * values[1] / root + decay * values[0]);
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    return {means<T>(scaled), static_cast<T>(-call.rate / gathered(beta1, corrected, call.step)),
            static_cast<T>(1 / std::sqrt(gathered(beta2, corrected, call.step))),
            static_cast<T>(epsilon), decay_of<T>(call, weight_decay)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    move_means(scaled * g, values);
    double &w = values[0], &largest = values[kMoved - 1];
    largest = std::max(largest, values[2]);
    const double mean = values[1] / gathered(beta1, corrected, call.step);
    const double root = std::sqrt(largest / gathered(beta2, corrected, call.step));
    w = w - call.rate * mean / (root + epsilon) - call.rate * weight_decay * w;
  }
};
using Adam = AdamRule<3>;
using Amsgrad = AdamRule<4>;

/// Adam as in PyTorch's SparseAdam, which adds epsilon to the root before the bias correction.
struct SparseAdam : Adam {
  using Adam::Adam;

  FLOW_HOST_DEVICE double corrected_rate(const UpdateCall& call) const {
    return call.rate * std::sqrt(gathered(beta2, corrected, call.step)) /
           gathered(beta1, corrected, call.step);
  }
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    return {means<T>(scaled), static_cast<T>(-corrected_rate(call)), T{1}, static_cast<T>(epsilon),
            T{0}};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    move_means(scaled * g, values);
    values[0] -= corrected_rate(call) * values[1] / (std::sqrt(values[2]) + epsilon);
  }
};

inline OpSpec adam_like(std::string_view name, std::string_view doc, std::string_view formula,
                        const std::vector<std::string_view>& slots, double flops) {
  return ops::update_spec(name, doc, formula, slots,
                          {ops::beta1(),
                           ops::beta2(),
                           ops::update_epsilon(),
                           {"bias_correction", ops::AttributeType::kBool, "true",
                            "correct m and v for their start at zero"},
                           ops::weight_decay()},
                          flops, {ops::l2_in_plans()});
}

inline OpSpec adam_update() {
  return adam_like("adam_update", "One step of Adam (Kingma and Ba, 2015).",
                   "m = beta1 m + (1 - beta1) scale g; v = beta2 v + (1 - beta2) (scale g)^2; w = "
                   "w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) - lr "
                   "weight_decay w",
                   {"m", "v"}, 12);
}

inline OpSpec sparse_adam_update() {
  OpSpec spec = ops::sparse_update(
      "sparse_adam_update",
      "One step of lazy Adam for the rows of a sparse gradient: m and v of other rows do not "
      "decay.",
      adam_update());

  spec.formula =
      "m, v as in adam_update; w = w - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + "
      "epsilon)";
  return spec;
}

inline OpSpec amsgrad_update() {
  return adam_like("amsgrad_update", "One step of AMSGrad (Reddi et al., 2018).",
                   "as adam_update, with v_max = max(v_max, v) in the place of v in the root",
                   {"m", "v", "v_max"}, 13);
}

}  // namespace flow::optimizers
