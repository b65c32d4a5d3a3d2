// What gradients are multiplied by to clip them and to undo a loss scale, and how that scale
// follows them. The same on every device.
#pragma once

#include <cmath>

#include "runtime/base/host_device.h"

namespace flow {

/// What clips gradients whose sum of squares, before they are multiplied by `scale`, is given to a
/// norm: min(1, limit / norm).
FLOW_HOST_DEVICE inline double clip_factor(double squares, double scale, double limit) {
  const double norm = std::abs(scale) * std::sqrt(squares);
  return norm > limit ? limit / norm : 1;
}

/// What undoes the loss scale, and clips gradients whose sum of squares is given to a norm (0: to
/// none); NaN where one of them is not finite.
FLOW_HOST_DEVICE inline double unscale_factor(double squares, double scale, double loss_scale,
                                              double clip_norm) {
  const double not_finite = squares - squares;  // 0, or NaN
  const double norm = std::sqrt(squares) * (scale < 0 ? -scale : scale) / loss_scale;
  const double clipped = clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
  return clipped / loss_scale + not_finite;
}

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
