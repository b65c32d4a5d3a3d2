// The tables of optimizers, learning rates and what goes with them: all that is known of their
// keys. Records of what an optimizer does to gradients first: gradient clipping and loss scales.
#pragma once

#include <cstdint>
#include <tuple>
#include <variant>

#include "compiler/job/tables/keys.h"
#include "runtime/plan/model/record.h"

namespace flow::job {

struct ClipByGlobalNorm {
  double clip_norm = 0, epsilon = 0;

  static constexpr auto record() {
    return plan::Record{"by_global_norm",
                        "Scales all gradients down so that their global norm is at most clip_norm.",
                        "g = g min(1, clip_norm / (|all g| + epsilon))",
                        std::tuple{plan::Field{"clip_norm", &ClipByGlobalNorm::clip_norm, "",
                                               "largest global norm", plan::kPositive},
                                   plan::Field{"epsilon", &ClipByGlobalNorm::epsilon, "0",
                                               "added to the norm; 1e-6 in PyTorch's "
                                               "clip_grad_norm_",
                                               plan::kNotNegative}}};
  }
};

struct ClipByValue {
  double clip_value = 0;

  static constexpr auto record() {
    return plan::Record{"by_value", "Clips each gradient element to [-clip_value, clip_value].",
                        "g = max(-clip_value, min(clip_value, g))",
                        std::tuple{plan::Field{"clip_value", &ClipByValue::clip_value, "",
                                               "largest absolute value", plan::kPositive}}};
  }
};

using GradClipping = std::variant<ClipByGlobalNorm, ClipByValue>;

/// As the op move_loss_scale keeps them.
inline constexpr plan::Bounds kLossScaleBounds{.min = 1e-37, .max = 1.7e38};

struct DynamicLossScale {
  double initial = 0, growth_factor = 0, backoff_factor = 0;
  int64_t growth_interval = 0;

  static constexpr auto record() {
    return plan::Record{
        "dynamic", "Grows while gradients are finite and shrinks when they are not.",
        "scale = scale growth_factor after growth_interval finite steps, scale backoff_factor "
        "after a non-finite step, which skips the update but still increments t",
        std::tuple{
            plan::Field{"initial", &DynamicLossScale::initial, "65536", "initial scale",
                        kLossScaleBounds},
            plan::Field{"growth_factor", &DynamicLossScale::growth_factor, "2", "factor to grow by",
                        plan::Bounds{.above = 1}},
            plan::Field{"backoff_factor", &DynamicLossScale::backoff_factor, "0.5",
                        "factor to shrink by", plan::Bounds{.below = 1, .above = 0}},
            plan::Field{"growth_interval", &DynamicLossScale::growth_interval, "2000",
                        "finite steps in a row before the scale grows", plan::Bounds{.min = 1}}}};
  }
};

struct StaticLossScale {
  double value = 0;

  static constexpr auto record() {
    return plan::Record{"static", "A constant scale.",
                        "loss times value, gradients divided by value",
                        std::tuple{plan::Field{"value", &StaticLossScale::value, "", "loss scale",
                                               kLossScaleBounds}}};
  }
};

using LossScale = std::variant<DynamicLossScale, StaticLossScale>;

const VariantKind& optimizers();
const VariantKind& learning_rates();
const VariantKind& warmups();
const VariantKind& grad_clippings();
const VariantKind& loss_scales();
const Section& learning_rate_scales();
const Section& ema_section();
const Section& lookahead_section();

}  // namespace flow::job
