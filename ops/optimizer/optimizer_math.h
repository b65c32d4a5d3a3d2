// Numbers of a step that optimizers compute from their rates, decays and norms, and how gradients
// are clipped and a loss scale follows them: shared by all devices.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/base/host_device.h"

namespace flow {

/// base^n, n >= 0, by squaring: the same bits on every machine, as are all numbers made from it.
FLOW_HOST_DEVICE inline double power(double base, int64_t n) {
  double result = 1;
  for (; n > 0; n /= 2, base *= base)
    if (n % 2 == 1) result *= base;
  return result;
}

/// 1 - beta^t, what a mean of t gradients has of them; 1 where that is not corrected.
FLOW_HOST_DEVICE inline double gathered(double beta, bool corrected, int64_t step) {
  return corrected ? 1 - power(beta, step + 1) : 1;
}

/// What Nadam multiplies the gradient and the mean of gradients by.
struct NadamFactors {
  double gradient, mean;
};

/// Momentum of step t, counted from 1: beta1 (1 - decay^t / 2). `decay`: 0.96^momentum_decay.
FLOW_HOST_DEVICE inline NadamFactors nadam_factors(double beta1, double decay, int64_t step) {
  const double now = beta1 * (1 - 0.5 * power(decay, step + 1));
  const double next = beta1 * (1 - 0.5 * power(decay, step + 2));
  // Of all momenta so far. Below 2^-64 a difference from 1 is 1, and so is 1 - fading / 2: what is
  // left are powers of beta1.
  double product = 1, fading = 1;
  for (int64_t i = 0; i <= step && product > 0x1p-64; ++i) {
    fading *= decay;
    if (fading < 0x1p-64) {
      product *= power(beta1, step + 1 - i);
      break;
    }
    product *= beta1 * (1 - 0.5 * fading);
  }
  return {(1 - now) / (1 - product), next / (1 - product * next)};
}

/// RAdam's rectification of the rate; 0 in the first steps, whose variance is unknown.
FLOW_HOST_DEVICE inline double rectification(double beta2, int64_t step) {
  const double limit = 2 / (1 - beta2) - 1, decayed = power(beta2, step + 1);
  const double length = limit - 2 * static_cast<double>(step + 1) * decayed / (1 - decayed);
  if (!(length > 5)) return 0;
  return std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
}

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
