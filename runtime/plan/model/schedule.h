// Learning rates as functions of the global step: a record for each type of schedule, with the rate
// at each step.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "runtime/plan/model/metric.h"
#include "runtime/plan/model/record.h"

namespace flow::plan {

/// The largest number of steps: more than any run takes, and far below where sums of steps would
/// overflow.
inline constexpr int64_t kMostSteps = int64_t{1} << 53;

/// The minimum is 1 because a schedule divides by its steps.
inline constexpr Bounds kScheduleSteps{.min = 1, .max = kMostSteps};

namespace schedules {

template <typename T>
constexpr auto base_field() {
  return Field{"base", &T::base, "", "base learning rate", kNotNegative};
}

template <typename T>
constexpr auto steps_field(std::string_view doc = "length of the decay in steps") {
  return Field{"steps", &T::steps, "", doc, kScheduleSteps};
}

template <typename T>
constexpr auto boundaries_field() {
  return Field{"boundaries", &T::boundaries, "", "last step of each piece except the last",
               kNotNegative};
}

/// The common part of schedules that decay by periods.
struct Decay {
  double base = 0;
  int64_t steps = 1;
  double decay_rate = 0;
  bool staircase = false;

  /// Returns step / steps, rounded down for a staircase.
  double periods(int64_t step) const;
  static constexpr auto fields() {
    return std::tuple{
        base_field<Decay>(), steps_field<Decay>("steps per decay period"),
        Field{"decay_rate", &Decay::decay_rate, "", "decay rate per period", kNotNegative},
        Field{"staircase", &Decay::staircase, "false", "decay only at whole periods"}};
  }
};

struct Constant {
  double base = 0;

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{"constant", "Constant learning rate.", "base",
                  std::tuple{base_field<Constant>()}};
  }
};

struct PiecewiseConstant {
  std::vector<int64_t> boundaries;
  std::vector<double> values;  // one value more than boundaries

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{
        "piecewise_constant",
        "One constant value up to and including each boundary, and one after the last.",
        "value i for the first i with step <= boundary i",
        std::tuple{boundaries_field<PiecewiseConstant>(),
                   Field{"values", &PiecewiseConstant::values, "",
                         "learning rate of each piece; one more than `boundaries`", kNotNegative}}};
  }
};

struct PiecewiseScaling {
  double base = 0;
  std::vector<int64_t> boundaries;
  std::vector<double> scale;  // the factor at each boundary

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{"piecewise_scaling", "Multiplies the base by a factor at each boundary.",
                  "base * scale 0 * ... * scale i - 1 for the first i with step <= boundary i",
                  std::tuple{base_field<PiecewiseScaling>(), boundaries_field<PiecewiseScaling>(),
                             Field{"scale", &PiecewiseScaling::scale, "",
                                   "factor for each boundary, or one for all", kNotNegative}}};
  }
};

struct Cosine {
  double base = 0;
  int64_t steps = 1;
  double alpha = 0;

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{"cosine",
                  "Cosine decay (Loshchilov and Hutter, 2017) without restarts, then constant.",
                  "base ((1 - alpha) (1 + cos(pi s)) / 2 + alpha), s = min(step / steps, 1)",
                  std::tuple{base_field<Cosine>(), steps_field<Cosine>(),
                             Field{"alpha", &Cosine::alpha, "0",
                                   "final learning rate as a fraction of the base", kNotNegative}}};
  }
};

struct LinearCosine {
  double base = 0;
  int64_t steps = 1;
  double num_periods = 0, alpha = 0, beta = 0;

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{
        "linear_cosine", "Cosine decay times linear decay (Bello et al., 2017).",
        "base ((alpha + 1 - s) (1 + cos(2 pi num_periods s)) / 2 + beta), s = min(step / steps, 1)",
        std::tuple{
            base_field<LinearCosine>(), steps_field<LinearCosine>(),
            Field{"num_periods", &LinearCosine::num_periods, "0.5", "number of cosine periods",
                  kNotNegative},
            Field{"alpha", &LinearCosine::alpha, "0", "offset of the linear decay", kNotNegative},
            Field{"beta", &LinearCosine::beta, "0.001", "fraction of the base to add",
                  kNotNegative}}};
  }
};

struct Polynomial {
  double base = 0;
  int64_t steps = 1;
  double end = 0, power = 0;
  bool cycle = false;

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{
        "polynomial", "Polynomial decay from `base` to `end`.",
        "(base - end) (1 - s)^power + end, s = min(step / steps, 1); cycle: steps times max(1, "
        "ceil(step / steps))",
        std::tuple{base_field<Polynomial>(), steps_field<Polynomial>(),
                   Field{"end", &Polynomial::end, "1e-4", "final learning rate", kNotNegative},
                   Field{"power", &Polynomial::power, "1",
                         "exponent of the polynomial; 1 is linear", kNotNegative},
                   Field{"cycle", &Polynomial::cycle, "false",
                         "restart the decay after the end, over a longer period"}}};
  }
};

struct Exponential : Decay {
  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{"exponential", "Exponential decay: multiplies by decay_rate in each period.",
                  "base decay_rate^(step / steps)", fields()};
  }
};

struct InverseTime : Decay {
  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{"inverse_time", "Inverse time decay.", "base / (1 + decay_rate step / steps)",
                  fields()};
  }
};

struct NaturalExp : Decay {
  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{"natural_exp", "Natural exponential decay.", "base exp(-decay_rate step / steps)",
                  fields()};
  }
};

/// The base rate for `steps` steps, then a rate that falls with the inverse square root.
struct InverseSqrt {
  double base = 0;
  int64_t steps = 1;

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{
        "inverse_sqrt",
        "Inverse square root decay after constant steps (Vaswani et al., 2017); with a linear "
        "warm-up over the same steps, the schedule of Transformers.",
        "base sqrt(steps / max(step, steps))",
        std::tuple{base_field<InverseSqrt>(),
                   steps_field<InverseSqrt>("steps at the base before the decay")}};
  }
};

struct StepDecay {
  double base = 0;
  int64_t steps = 1;
  double factor = 0;

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{
        "step", "Multiplies by a factor after each period, as PyTorch's StepLR.",
        "base factor^floor(step / steps)",
        std::tuple{
            base_field<StepDecay>(), steps_field<StepDecay>("length of a period in steps"),
            Field{"factor", &StepDecay::factor, "0.1", "factor of a reduction", kNotNegative}}};
  }
};

struct Linear {
  double base = 0;
  int64_t steps = 1;
  double start_factor = 0, end_factor = 0;

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{
        "linear", "A line from one fraction of the base to another, then constant, as LinearLR.",
        "base (start_factor + (end_factor - start_factor) s), s = min(step / steps, 1)",
        std::tuple{base_field<Linear>(), steps_field<Linear>("length of the line in steps"),
                   Field{"start_factor", &Linear::start_factor, "1",
                         "fraction of the base at step 0", kNotNegative},
                   Field{"end_factor", &Linear::end_factor, "0",
                         "fraction of the base from `steps` on", kNotNegative}}};
  }
};

struct CosineRestarts {
  double base = 0;
  int64_t steps = 1, period_factor = 1;
  double restart_factor = 0, alpha = 0;

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{
        "cosine_restarts",
        "Cosine decay with warm restarts (Loshchilov and Hutter, 2017), as PyTorch's "
        "CosineAnnealingWarmRestarts.",
        "base ((1 - alpha) restart_factor^n (1 + cos(pi s)) / 2 + alpha) in period n = 0, 1, ..., "
        "s the elapsed fraction of the period",
        std::tuple{base_field<CosineRestarts>(),
                   steps_field<CosineRestarts>("length of the first period in steps"),
                   Field{"period_factor", &CosineRestarts::period_factor, "1",
                         "factor on the length of each next period", kScheduleSteps},
                   Field{"restart_factor", &CosineRestarts::restart_factor, "1",
                         "factor on the highest learning rate of each next period", kNotNegative},
                   Field{"alpha", &CosineRestarts::alpha, "0",
                         "lowest learning rate as a fraction of the base", kNotNegative}}};
  }
};

struct OneCycle {
  double base = 0;
  int64_t steps = 1;
  double pct_start = 0, div_factor = 0, final_div_factor = 0;
  bool linear = false, three_phase = false;

  double rate(int64_t step) const;
  static constexpr auto record() {
    return Record{
        "one_cycle",
        "One cycle (Smith and Topin, 2018), as PyTorch's OneCycleLR: up to `base`, then down.",
        "low = base / div_factor, end = low / final_div_factor, a = pct_start steps - 1;\ncosine "
        "from low at 0 to base at a, then to end at steps - 1 (three_phase: to low at 2 a, then to "
        "end)",
        std::tuple{
            Field{"base", &OneCycle::base, "", "highest learning rate", kNotNegative},
            steps_field<OneCycle>("length of the cycle in steps"),
            Field{"pct_start", &OneCycle::pct_start, "0.3", "fraction of the steps that go up",
                  Bounds{.min = 0, .max = 1}},
            Field{"div_factor", &OneCycle::div_factor, "25",
                  "base divided by the learning rate of step 0", kPositive},
            Field{"final_div_factor", &OneCycle::final_div_factor, "1e4",
                  "learning rate of step 0 divided by the last one", kPositive},
            Field{"linear", &OneCycle::linear, "false", "follow lines instead of cosines"},
            Field{"three_phase", &OneCycle::three_phase, "false",
                  "go down to the learning rate of step 0 as fast as up, then to the last one"}}};
  }
};

/// A rate that the run itself reduces: see exec::Decisions.
struct Plateau {
  double base = 0, factor = 0;
  int64_t patience = 0;
  double min_delta = 0;
  int64_t cooldown = 0;
  double min_lr = 0, epsilon = 0;

  double rate(int64_t) const { return base; }
  /// Returns the reduced rate, or `rate` itself if it would fall by no more than epsilon.
  double reduced(double rate) const;
  static constexpr auto record() {
    return Record{
        "plateau",
        "Reduces the learning rate when a monitored value stops improving, as PyTorch's "
        "ReduceLROnPlateau with threshold_mode=abs.",
        "rate = max(factor rate, min_lr), once more than patience values in a row improve the best "
        "by at most min_delta",
        std::tuple{
            base_field<Plateau>(),
            Field{"factor", &Plateau::factor, "0.1", "factor of a reduction",
                  Bounds{.below = 1, .above = 0}},
            Field{"patience", &Plateau::patience, "10",
                  "values in a row without improvement that are tolerated",
                  Bounds{.min = 0, .max = kMostSteps}},
            Field{"min_delta", &Plateau::min_delta, "1e-4",
                  "smallest change that is an improvement", kNotNegative},
            Field{"cooldown", &Plateau::cooldown, "0", "values after a reduction that do not count",
                  Bounds{.min = 0, .max = kMostSteps}},
            Field{"min_lr", &Plateau::min_lr, "0", "smallest learning rate", kNotNegative},
            Field{"epsilon", &Plateau::epsilon, "1e-8", "smallest change of the learning rate",
                  kNotNegative}}};
  }
};

}  // namespace schedules

using RateFunction =
    std::variant<schedules::Constant, schedules::PiecewiseConstant, schedules::PiecewiseScaling,
                 schedules::Cosine, schedules::LinearCosine, schedules::Polynomial,
                 schedules::Exponential, schedules::InverseTime, schedules::NaturalExp,
                 schedules::InverseSqrt, schedules::StepDecay, schedules::Linear,
                 schedules::CosineRestarts, schedules::OneCycle, schedules::Plateau>;

/// The warm-up of a learning rate, which multiplies the rate of the first steps by a factor.
struct Warmup {
  enum class Type { kConstant, kLinear };

  Type type = Type::kConstant;
  int64_t steps = 1;
  double multiplier = 0;  // the factor of step 0; a linear warm-up grows to 1 at `steps`

  double factor(int64_t step) const;
};
template <>
struct EnumNames<Warmup::Type> {
  static constexpr std::array<std::string_view, 2> words = {"constant", "linear"};
};

/// A warm-up as job files write it. The key of the multiplier depends on the type.
struct ConstantWarmup : Warmup {
  ConstantWarmup() : Warmup{.type = Type::kConstant} {}
  static constexpr auto record() {
    return Record{"constant", "Constant fraction of the base learning rate.", "base multiplier",
                  std::tuple{schedules::steps_field<Warmup>("length of the warm-up in steps"),
                             Field{"multiplier", &Warmup::multiplier, "",
                                   "fraction of the base learning rate", kNotNegative}}};
  }
};

struct LinearWarmup : Warmup {
  LinearWarmup() : Warmup{.type = Type::kLinear} {}
  static constexpr auto record() {
    return Record{"linear", "Linear growth to the base learning rate.",
                  "base (start_multiplier + (1 - start_multiplier) step / steps)",
                  std::tuple{schedules::steps_field<Warmup>("length of the warm-up in steps"),
                             Field{"start_multiplier", &Warmup::multiplier, "",
                                   "fraction of the base learning rate at step 0", kNotNegative}}};
  }
};

using WrittenWarmup = std::variant<ConstantWarmup, LinearWarmup>;

/// A function that replaces the previous one of the schedule at step `from`. It counts steps from
/// its start.
struct ScheduleStage {
  int64_t from = 0;
  RateFunction function;
  std::optional<Warmup> warmup = {};
};

struct Schedule {
  RateFunction function;
  std::optional<Warmup> warmup = {};
  std::optional<FollowedValue> follows = {};  // only for a plateau
  std::vector<ScheduleStage> stages = {};     // the functions after the first one, sorted by `from`
};

/// Returns the learning rate of a step. `reduced` is the rate to which a run has reduced the base
/// of a plateau. REQUIRES: the plan check passed the schedule; step >= 0.
double learning_rate(const Schedule& schedule, int64_t step, std::optional<double> reduced = {});

}  // namespace flow::plan
