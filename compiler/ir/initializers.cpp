// Implements the initializers that depend on fans.
#include "compiler/ir/initializers.h"

#include <charconv>
#include <cmath>

#include "runtime/base/error.h"

namespace flow {
namespace {

using plan::initializers::Normal, plan::initializers::TruncatedNormal, plan::initializers::Uniform;

/// The standard deviation of a standard normal distribution that is cut off at two standard
/// deviations.
constexpr double kTruncatedDeviation = 0.87962566103423978;

double fan_of(FanMode mode, Fans fans) {
  if (mode == FanMode::kOut) return fans.out;
  if (mode == FanMode::kAverage) return (fans.in + fans.out) / 2;
  return fans.in;
}

Uniform uniform_within(double limit) { return {-limit, limit}; }

}  // namespace

Fans fans_of(const Shape& weight) {
  if (weight.rank() < 2) {
    const auto own = static_cast<double>(weight.elements());
    return {own, own};
  }
  double window = 1;
  for (int axis = 2; axis < weight.rank(); ++axis) window *= static_cast<double>(weight[axis]);
  return {static_cast<double>(weight[1]) * window, static_cast<double>(weight[0]) * window};
}

plan::Initializer VarianceScaling::resolved(Fans fans) const {
  const double variance = scale / fan_of(mode, fans);
  if (distribution == Distribution::kUniform) return uniform_within(std::sqrt(3 * variance));
  if (distribution == Distribution::kNormal) return Normal{0, std::sqrt(variance)};
  return TruncatedNormal{0, std::sqrt(variance) / kTruncatedDeviation};
}

plan::Initializer GlorotUniform::resolved(Fans fans) const {
  return uniform_within(std::sqrt(6 / (fans.in + fans.out)));
}

plan::Initializer GlorotNormal::resolved(Fans fans) const {
  return Normal{0, std::sqrt(2 / (fans.in + fans.out))};
}

plan::Initializer Kaiming::resolved(Fans fans) const {
  const double a = negative_slope;
  const double gain = nonlinearity == Nonlinearity::kLinear ? 1 : std::sqrt(2 / (1 + a * a));
  const double stddev = gain / std::sqrt(fan_of(mode, fans));
  if (distribution == Distribution::kUniform) return uniform_within(std::sqrt(3.0) * stddev);
  if (distribution == Distribution::kTruncatedNormal) return TruncatedNormal{0, stddev};
  return Normal{0, stddev};
}

WrittenInitializer default_initializer(std::string_view text) {
  const size_t open = text.find('(');
  WrittenInitializer made;
  FLOW_CHECK(plan::set_type(made, text.substr(0, open)), "initializer {}", text);
  if (open == std::string_view::npos) return made;
  const auto read = [&](double& to) {
    std::from_chars(text.data() + open + 1, text.data() + text.size(), to);
  };
  if (auto* normal = std::get_if<Normal>(&made)) read(normal->stddev);
  if (auto* constant = std::get_if<plan::initializers::Constant>(&made)) read(constant->value);
  return made;
}

plan::Initializer resolve_initializer(const WrittenInitializer& written, Fans fans) {
  return std::visit(
      [&](const auto& one) -> plan::Initializer {
        if constexpr (requires { one.resolved(fans); })
          return one.resolved(fans);
        else
          return one;
      },
      written);
}

}  // namespace flow
