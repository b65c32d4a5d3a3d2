// What gradients are multiplied by to clip them and to undo a loss scale, and how that scale
// follows them. The same on every device.
#pragma once

#include <cmath>

#include "runtime/base/host_device.h"

namespace flow {

/// How gradients are clipped by their norm, that of all gradients times `scale`.
struct NormClipping {
  double scale;
  double limit;    // 0: they are not clipped
  double epsilon;  // added to the norm

  /// As the attributes of a clip_factor or an unscale_factor say.
  template <typename Attributes>
  static NormClipping of(const Attributes& attributes) {
    return {attributes.template get<double>("scale"), attributes.template get<double>("clip_norm"),
            attributes.has("epsilon") ? attributes.template get<double>("epsilon") : 0};
  }

  /// Of gradients whose sum of squares is given, with the loss scale undone.
  FLOW_HOST_DEVICE double norm(double squares, double loss_scale = 1) const {
    return std::sqrt(squares) * (scale < 0 ? -scale : scale) / loss_scale;
  }
  /// min(1, limit / (norm + epsilon))
  FLOW_HOST_DEVICE double factor(double norm) const {
    return limit > 0 && norm + epsilon > limit ? limit / (norm + epsilon) : 1;
  }
  /// The same, which undoes the loss scale too; NaN where a gradient is not finite.
  FLOW_HOST_DEVICE double unscaling(double squares, double loss_scale) const {
    const double not_finite = squares - squares;  // 0, or NaN
    return factor(norm(squares, loss_scale)) / loss_scale + not_finite;
  }
};

struct LossScaleRule {
  double backoff_factor, growth_factor, growth_interval;

  /// As the attributes of a move_loss_scale say.
  template <typename Attributes>
  static LossScaleRule of(const Attributes& attributes) {
    const auto number = [&](const char* name) { return attributes.template get<double>(name); };
    return {number("backoff_factor"), number("growth_factor"), number("growth_interval")};
  }
};

/// Moves a scale after a step; `finite_steps` counts those since it has moved. It stays where the
/// next would leave float32's normal numbers.
template <typename T>
FLOW_HOST_DEVICE void move_loss_scale(const LossScaleRule& rule, double factor, T& loss_scale,
                                      T& finite_steps) {
  constexpr double kLeast = 0x1p-126, kMost = 0x1p127;
  const bool finite = factor == factor;
  const double steps = finite ? static_cast<double>(finite_steps) + 1 : 0;
  const bool grows = steps >= rule.growth_interval;
  const double moved = static_cast<double>(loss_scale) * (!finite ? rule.backoff_factor
                                                          : grows ? rule.growth_factor
                                                                  : 1);
  if (moved >= kLeast && moved <= kMost) loss_scale = static_cast<T>(moved);
  finite_steps = static_cast<T>(grows ? 0 : steps);
}

}  // namespace flow
