// RMSprop, optionally centered and optionally with momentum.
#pragma once

#include <algorithm>

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

/// The arrays are w, ms, then mg if the update is centered, then the momentum if the update has
/// one.
template <bool kCentered, bool kMomentum>
struct RmspropRule : Rule {
  static constexpr int kMoved = 2 + kCentered + kMomentum;
  double decay, momentum;
  double inside = 0, outside = 0;  // epsilon, added to the mean square or to its root

  explicit RmspropRule(const Attributes& attributes)
      : Rule(attributes),
        decay(attributes.get<double>("decay_rate")),
        momentum(number_or(attributes, "momentum", 0)) {
    const ops::Attribute* is_inside = attributes.find("epsilon_inside");
    (!is_inside || std::get<bool>(*is_inside) ? inside : outside) =
        attributes.get<double>("epsilon");
  }

  template <typename T>
  struct Move {
    T scale, decay, rest, negative_rate, inside, outside, momentum;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T square = rest * (scaled * scaled) + decay * values[1];
      T variance = square;
      if constexpr (kCentered) {
        const T mean = rest * scaled + decay * values[2];
        variance = square - mean * mean;
        variance = variance < 0 ? 0 : variance;  // rounding may make it negative
        values[2] = mean;
      }
      const T root = std::sqrt(variance + inside) + outside;
      if constexpr (kMomentum) {
        T& moved = values[kMoved - 1];
        moved = momentum * moved + scaled / root;
        values[0] = values[0] + negative_rate * moved;
      } else {
        values[0] = values[0] + negative_rate * scaled / root;
      }
      values[1] = square;
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    return {static_cast<T>(scaled),     static_cast<T>(decay),  static_cast<T>(1 - decay),
            static_cast<T>(-call.rate), static_cast<T>(inside), static_cast<T>(outside),
            static_cast<T>(momentum)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    g *= scaled;
    double& ms = values[1];
    ms = (1 - decay) * g * g + decay * ms;
    double variance = ms;
    if constexpr (kCentered) {
      double& mg = values[2];
      mg = (1 - decay) * g + decay * mg;
      variance = std::max(0.0, ms - mg * mg);
    }
    double direction = g / (std::sqrt(variance + inside) + outside);
    if constexpr (kMomentum) {
      double& m = values[kMoved - 1];
      m = direction = momentum * m + direction;
    }
    values[0] -= call.rate * direction;
  }
};
using Rmsprop = RmspropRule<false, false>;
using CenteredRmsprop = RmspropRule<true, false>;
using MomentumRmsprop = RmspropRule<false, true>;
using CenteredMomentumRmsprop = RmspropRule<true, true>;

/// Returns the specification of an update. `slots` are ms, the mean square, and the other arrays
/// that the update moves.
inline OpSpec rmsprop_like(std::string_view name, std::string_view doc, std::string_view formula,
                           const std::vector<std::string_view>& slots, double flops) {
  std::vector<ops::AttributeSpec> attributes{ops::decay_rate(), ops::update_epsilon()};
  if (slots.back() == "momentum")
    attributes.push_back(ops::required_magnitude("momentum", "momentum coefficient"));
  return ops::update_spec(
      name, doc, formula, slots, attributes, flops,
      {{.name = "epsilon_inside", .kind = ops::Kind::kFlag, .optional = true}, ops::l2_in_plans()});
}

inline OpSpec rmsprop_update() {
  return rmsprop_like("rmsprop_update", "One step of RMSprop (Tieleman and Hinton, 2012).",
                      "ms = decay_rate ms + (1 - decay_rate) (scale g)^2; w = w - lr scale g / "
                      "sqrt(ms + epsilon) (epsilon_inside false: / (sqrt(ms) + epsilon))",
                      {"ms"}, 9);
}

inline OpSpec centered_rmsprop_update() {
  return rmsprop_like("centered_rmsprop_update",
                      "One step of centered RMSprop: by the variance of the gradients.",
                      "ms as in rmsprop_update; mg = decay_rate mg + (1 - decay_rate) scale g; w = "
                      "w - lr scale g / sqrt(ms - mg^2 + epsilon)",
                      {"ms", "mg"}, 12);
}

inline OpSpec momentum_rmsprop_update() {
  return rmsprop_like("momentum_rmsprop_update", "One step of RMSprop with momentum.",
                      "ms as in rmsprop_update; momentum = momentum momentum + scale g / sqrt(ms + "
                      "epsilon); w = w - lr momentum",
                      {"ms", "momentum"}, 11);
}

inline OpSpec centered_momentum_rmsprop_update() {
  return rmsprop_like("centered_momentum_rmsprop_update",
                      "One step of centered RMSprop with momentum.",
                      "ms, mg as in centered_rmsprop_update; momentum = momentum momentum + scale "
                      "g / sqrt(ms - mg^2 + epsilon); w = w - lr momentum",
                      {"ms", "mg", "momentum"}, 14);
}

}  // namespace flow::optimizers
