// Adafactor, which keeps means of squared gradients over rows and columns.
#pragma once

#include <algorithm>

#include "ops/optimizer/layerwise.h"

namespace flow::optimizers {

void infer_adafactor_update(ops::Call& call);

/// Moves a mean of squared gradients over steps. The first operand is the mean of the squared
/// gradients of this step.
struct AdafactorMean : Rule {
  static constexpr int kMoved = 1;
  double decay;  // at most 0

  explicit AdafactorMean(const Attributes& attributes)
      : Rule(attributes), decay(attributes.get<double>("beta2_decay")) {}

  /// Returns the share of the new squares in their mean over steps.
  FLOW_HOST_DEVICE double share(const UpdateCall& call) const {
    return std::pow(static_cast<double>(call.step + 1), decay);
  }
  template <typename T>
  struct Move {
    T square_scale, share;
    FLOW_INLINE void operator()(T square, T (&values)[kMoved]) const {
      values[0] = values[0] + share * (square_scale * square - values[0]);
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    return {static_cast<T>(scaled * scaled), static_cast<T>(share(call))};
  }
  void exact(double square, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    values[0] += share(call) * (scaled * scaled * square - values[0]);
  }
};

inline OpSpec adafactor_mean() {
  return {
      .name = "adafactor_mean",
      .doc = "Moves a mean of squared gradients of Adafactor (Shazeer and Stern, 2018).",
      .formula = "mean = mean + t^beta2_decay (scale^2 square - mean)",
      .operands = {{"square", "mean of squared gradients"},
                   {"mean", "optimizer state, same shape as the square"},
                   ops::gradient_factor()},
      .attributes = {ops::gradient_scale(),
                     ops::required_number("beta2_decay", "exponent of the share of the square")},
      .results = ops::updated_with({}),
      .infer = ops::infer_update<0>,
      .flops = {4},
      .internal = true};
}

/// Moves a variable. The second array contains the mean squares, which stay unchanged. The terms
/// (see layerwise.h) are the variable and its update before the multiplication by the rate.
struct Adafactor : Rule {
  static constexpr int kMoved = 2, kWritten = 1;
  static constexpr bool kMovesSlots = false;
  double epsilon1, epsilon2, clip_threshold, weight_decay;

  explicit Adafactor(const Attributes& attributes)
      : Rule(attributes),
        epsilon1(attributes.get<double>("epsilon1")),
        epsilon2(attributes.get<double>("epsilon2")),
        clip_threshold(attributes.get<double>("clip_threshold")),
        weight_decay(attributes.get<double>("weight_decay")) {}

  template <typename T>
  struct Direction {
    T scale, epsilon1;
    FLOW_INLINE T operator()(T g, T mean_square) const {
      const T root = std::sqrt(mean_square);
      return scale * g / (root < epsilon1 ? epsilon1 : root);
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Direction<T> direction(double scaled) const {
    return {static_cast<T>(scaled), static_cast<T>(epsilon1)};
  }
  double exact_direction(double g, double scaled, double mean_square) const {
    return scaled * g / std::max(std::sqrt(mean_square), epsilon1);
  }

  template <typename T>
  struct Terms {
    Direction<T> direction;
    FLOW_INLINE Pair<T> operator()(T g, T (&values)[kMoved]) const {
      return {values[0], direction(g, values[1])};
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Terms<T> terms(double scaled, const UpdateCall&) const {
    return {direction<T>(scaled)};
  }
  Pair<double> exact_terms(double g, double scaled, double (&values)[kMoved],
                           const UpdateCall&) const {
    return {values[0], exact_direction(g, scaled, values[1])};
  }

  /// Returns the rate, which depends on the root mean squares of the variable and of its update.
  FLOW_HOST_DEVICE double rate(TwoSums sums, double, double elements,
                               const UpdateCall& call) const {
    const double size = std::sqrt(sums.first / elements);
    const double most = 1 / std::sqrt(static_cast<double>(call.step + 1));
    const double relative = call.rate < most ? call.rate : most;
    const double excess = std::sqrt(sums.second / elements) / clip_threshold;
    return relative * (size > epsilon2 ? size : epsilon2) / (excess > 1 ? excess : 1);
  }

  template <typename T>
  struct Move {
    Direction<T> direction;
    T negative_rate, decay;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      values[0] = values[0] + (negative_rate * direction(g, values[1]) + decay * values[0]);
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, double rate, const UpdateCall& call) const {
    return {direction<T>(scaled), static_cast<T>(-rate), decay_of<T>(call, weight_decay)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], double rate,
             const UpdateCall& call) const {
    double& w = values[0];
    w = w - rate * exact_direction(g, scaled, values[1]) - call.rate * weight_decay * w;
  }
};

inline OpSpec adafactor_update() {
  return {
      .name = "adafactor_update",
      .doc = "One step of Adafactor, by the mean square of each element.",
      .formula =
          "u = scale g / max(sqrt(V), epsilon1); w = w - lr weight_decay w - min(lr, 1 / sqrt(t)) "
          "max(epsilon2, |w|) u / max(1, |u| / clip_threshold), |x| = rms(x)",
      .operands = {{"gradient", "gradient of the summed loss"},
                   {"variable", "same shape as the gradient"},
                   {"mean_square", "V, same shape as the gradient"},
                   ops::gradient_factor()},
      .attributes = {ops::gradient_scale(), ops::rate_scale(),
                     ops::required_magnitude("epsilon1", "least root of a mean square"),
                     ops::required_magnitude("epsilon2", "least size of the variable"),
                     ops::required_magnitude("clip_threshold",
                                             "largest root mean square of updates"),
                     ops::weight_decay()},
      .results = ops::updated_with({}),
      .infer = infer_adafactor_update,
      .flops = {12},
      .internal = true};
}

}  // namespace flow::optimizers
