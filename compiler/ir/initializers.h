// Declares the initializers of job files: those of plans, and those whose numbers depend on the
// fans of a variable.
#pragma once

#include <array>
#include <string_view>
#include <tuple>
#include <variant>

#include "runtime/base/array.h"
#include "runtime/plan/model/generators.h"

namespace flow {

/// The number of inputs that each output element of a kernel depends on, and the number of outputs
/// that each input affects.
struct Fans {
  double in = 1, out = 1;
};

/// Returns the fans of a weight (out, in / groups, kernel...). With fewer than two dimensions, both
/// are the number of elements.
Fans fans_of(const Shape& weight);

/// The fan that divides a variance.
enum class FanMode { kIn, kOut, kAverage };

template <typename T>
constexpr auto mode_field() {
  return plan::Field{"mode", &T::mode, "fan_in",
                     "n in the formula: inputs per output (fan_in), outputs per input (fan_out), "
                     "or their mean (fan_avg)"};
}

struct VarianceScaling {
  enum class Distribution { kTruncatedNormal, kNormal, kUniform };

  double scale = 1;
  FanMode mode = FanMode::kIn;
  Distribution distribution = Distribution::kTruncatedNormal;

  plan::Initializer resolved(Fans fans) const;
  static constexpr auto record() {
    return plan::Record{"variance_scaling",
                        "Variance scaling: keeps the variance of the layer input.",
                        "variance scale / n",
                        std::tuple{plan::Field{"scale", &VarianceScaling::scale, "1",
                                               "scale of the variance", plan::kNotNegative},
                                   mode_field<VarianceScaling>(),
                                   plan::Field{"distribution", &VarianceScaling::distribution,
                                               "truncated_normal", "distribution to draw from"}}};
  }
};

struct GlorotUniform {
  plan::Initializer resolved(Fans fans) const;
  static constexpr auto record() {
    return plan::Record{"glorot_uniform",
                        "Glorot initializer, also called Xavier (Glorot and Bengio, 2010).",
                        "within sqrt(6 / (fan_in + fan_out))", std::tuple{}};
  }
};

struct XavierUniform : GlorotUniform {
  static constexpr auto record() {
    return plan::Record{"xavier_uniform", "Alias of glorot_uniform.",
                        GlorotUniform::record().formula, std::tuple{}};
  }
};

struct GlorotNormal {
  plan::Initializer resolved(Fans fans) const;
  static constexpr auto record() {
    return plan::Record{"glorot_normal",
                        "Glorot initializer, also called Xavier (Glorot and Bengio, 2010).",
                        "variance 2 / (fan_in + fan_out)", std::tuple{}};
  }
};

struct XavierNormal : GlorotNormal {
  static constexpr auto record() {
    return plan::Record{"xavier_normal", "Alias of glorot_normal.", GlorotNormal::record().formula,
                        std::tuple{}};
  }
};

struct Kaiming {
  enum class Distribution { kNormal, kTruncatedNormal, kUniform };
  enum class Nonlinearity { kRelu, kLeakyRelu, kLinear };

  double negative_slope = 0;
  FanMode mode = FanMode::kIn;
  Distribution distribution = Distribution::kNormal;
  Nonlinearity nonlinearity = Nonlinearity::kRelu;

  plan::Initializer resolved(Fans fans) const;
  static constexpr auto record() {
    return plan::Record{
        "kaiming", "Kaiming initializer, also called He, for ReLU networks (He et al., 2015).",
        "variance 2 / (1 + negative_slope^2) / n",
        std::tuple{plan::Field{"negative_slope", &Kaiming::negative_slope, "0",
                               "slope of leaky ReLU below 0"},
                   mode_field<Kaiming>(),
                   plan::Field{"distribution", &Kaiming::distribution, "random_normal",
                               "distribution to draw from"},
                   plan::Field{"nonlinearity", &Kaiming::nonlinearity, "relu",
                               "activation after the layer; linear gives the variance 1 / n"}}};
  }
};

template <>
struct plan::EnumNames<FanMode> {
  static constexpr std::array<std::string_view, 3> words = {"fan_in", "fan_out", "fan_avg"};
};
template <>
struct plan::EnumNames<VarianceScaling::Distribution> {
  static constexpr std::array<std::string_view, 3> words = {"truncated_normal", "random_normal",
                                                            "random_uniform"};
};
template <>
struct plan::EnumNames<Kaiming::Distribution> {
  static constexpr std::array<std::string_view, 3> words = {"random_normal", "truncated_normal",
                                                            "random_uniform"};
};
template <>
struct plan::EnumNames<Kaiming::Nonlinearity> {
  static constexpr std::array<std::string_view, 3> words = {"relu", "leaky_relu", "linear"};
};

using WrittenInitializer =
    std::variant<plan::initializers::Zeros, plan::initializers::Ones, plan::initializers::Constant,
                 plan::initializers::Uniform, plan::initializers::Normal,
                 plan::initializers::TruncatedNormal, VarianceScaling, GlorotUniform, XavierUniform,
                 GlorotNormal, XavierNormal, Kaiming, plan::initializers::Npy>;

/// Reads an initializer from the table of an op, such as "zeros" or one with a number: the standard
/// deviation in "random_normal(0.02)", the value in "constant(0.25)".
WrittenInitializer default_initializer(std::string_view text);

/// Returns the initializer of the plan for a variable with these fans.
plan::Initializer resolve_initializer(const WrittenInitializer& written, Fans fans);

}  // namespace flow
