// Numbers that optimizers compute for a step from their rates, decays and norms, and the rules of
// gradient clipping and loss scaling. All devices share them.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/base/host_device.h"

namespace flow {

/// Returns base^n, n >= 0, by squaring. The result, and every number computed from it, is
/// bit-identical on all machines.
FLOW_HOST_DEVICE inline double power(double base, int64_t n) {
  double result = 1;
  for (; n > 0; n /= 2, base *= base)
    if (n % 2 == 1) result *= base;
  return result;
}

/// Returns 1 - beta^t, the total weight of t gradients in their mean, or 1 without bias correction.
FLOW_HOST_DEVICE inline double gathered(double beta, bool corrected, int64_t step) {
  return corrected ? 1 - power(beta, step + 1) : 1;
}

/// The factors by which Nadam multiplies the gradient and the mean of gradients.
struct NadamFactors {
  double gradient, mean;
};

/// Returns the factors of a step. The momentum is beta1 (1 - decay^t / 2) in step t, counted from
/// 1, where `decay` is 0.96^momentum_decay.
FLOW_HOST_DEVICE inline NadamFactors nadam_factors(double beta1, double decay, int64_t step) {
  const double now = beta1 * (1 - 0.5 * power(decay, step + 1));
  const double next = beta1 * (1 - 0.5 * power(decay, step + 2));
  // `product` is the product of all momenta so far. The loop ends once it is below 2^-64, because 1
  // minus the product is then 1. Once `fading` is below 2^-64, 1 - fading / 2 is 1, so the
  // remaining factors are powers of beta1.
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

/// Returns RAdam's rectification of the rate, or 0 in the first steps, in which the variance is
/// unknown.
FLOW_HOST_DEVICE inline double rectification(double beta2, int64_t step) {
  const double limit = 2 / (1 - beta2) - 1, decayed = power(beta2, step + 1);
  const double length = limit - 2 * static_cast<double>(step + 1) * decayed / (1 - decayed);
  if (!(length > 5)) return 0;
  return std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
}

/// The clipping of gradients by the norm of all gradients times `scale`.
struct NormClipping {
  double scale;
  double limit;    // 0 if gradients are not clipped
  double epsilon;  // added to the norm

  /// Returns the clipping that the attributes of a clip_factor or an unscale_factor describe.
  template <typename Attributes>
  static NormClipping of(const Attributes& attributes) {
    return {attributes.template get<double>("scale"), attributes.template get<double>("clip_norm"),
            attributes.has("epsilon") ? attributes.template get<double>("epsilon") : 0};
  }

  /// Returns the norm of gradients from their sum of squares, with the loss scale undone.
  FLOW_HOST_DEVICE double norm(double squares, double loss_scale = 1) const {
    return std::sqrt(squares) * (scale < 0 ? -scale : scale) / loss_scale;
  }
  /// Returns min(1, limit / (norm + epsilon)), or 1 if gradients are not clipped.
  FLOW_HOST_DEVICE double factor(double norm) const {
    return limit > 0 && norm + epsilon > limit ? limit / (norm + epsilon) : 1;
  }
  /// Returns the factor that both clips and undoes the loss scale, or NaN if a gradient is not
  /// finite.
  FLOW_HOST_DEVICE double unscaling(double squares, double loss_scale) const {
    const double not_finite = squares - squares;  // 0, or NaN
    return factor(norm(squares, loss_scale)) / loss_scale + not_finite;
  }
};

struct LossScaleRule {
  double backoff_factor, growth_factor, growth_interval;

  /// Returns the rule that the attributes of a move_loss_scale describe.
  template <typename Attributes>
  static LossScaleRule of(const Attributes& attributes) {
    const auto number = [&](const char* name) { return attributes.template get<double>(name); };
    return {number("backoff_factor"), number("growth_factor"), number("growth_interval")};
  }
};

/// Moves the loss scale after a step. `finite_steps` counts the finite steps since the last change.
/// The scale stays unchanged if the next one would leave the normal range of float32.
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
