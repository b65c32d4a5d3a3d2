// The formulas of initializers that ask for fans.
#include "compiler/grad/initializers.h"

#include <charconv>
#include <cmath>

namespace flow {
namespace {

/// The standard deviation of a standard normal cut off at two deviations.
constexpr double kTruncatedDeviation = 0.87962566103423978;

plan::Initializer uniform(double limit) {
  return {"random_uniform", {{"max", limit}, {"min", -limit}}, {}};
}

plan::Initializer normal(const std::string& type, double stddev) {
  return {type, {{"mean", 0}, {"stddev", stddev}}, {}};
}

double fan_of(const plan::Initializer& asked, Fans fans) {
  if (asked.values.contains("fan_out")) return fans.out;
  if (asked.values.contains("fan_avg")) return (fans.in + fans.out) / 2;
  return fans.in;
}

plan::Initializer variance_scaling(const plan::Initializer& asked, Fans fans) {
  const auto scale = asked.values.find("scale");
  const double variance = (scale == asked.values.end() ? 1 : scale->second) / fan_of(asked, fans);
  if (asked.values.contains("random_uniform")) return uniform(std::sqrt(3 * variance));
  if (asked.values.contains("random_normal")) return normal("random_normal", std::sqrt(variance));
  return normal("truncated_normal", std::sqrt(variance) / kTruncatedDeviation);
}

plan::Initializer kaiming(const plan::Initializer& asked, Fans fans) {
  const auto slope = asked.values.find("negative_slope");
  const double a = slope == asked.values.end() ? 0 : slope->second;
  const double gain = asked.values.contains("linear") ? 1 : std::sqrt(2 / (1 + a * a));
  const double stddev = gain / std::sqrt(fan_of(asked, fans));
  if (asked.values.contains("random_uniform")) return uniform(std::sqrt(3.0) * stddev);
  return normal(asked.values.contains("truncated_normal") ? "truncated_normal" : "random_normal",
                stddev);
}

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

plan::Initializer default_initializer(std::string_view text) {
  const size_t open = text.find('(');
  if (open == std::string_view::npos) return {std::string(text), {}, {}};
  double stddev = 0;
  std::from_chars(text.data() + open + 1, text.data() + text.size(), stddev);
  return normal(std::string(text.substr(0, open)), stddev);
}

plan::Initializer resolve_initializer(const plan::Initializer& asked, Fans fans) {
  if (asked.type == "variance_scaling") return variance_scaling(asked, fans);
  if (asked.type == "kaiming") return kaiming(asked, fans);
  if (asked.type == "glorot_uniform" || asked.type == "xavier_uniform")
    return uniform(std::sqrt(6 / (fans.in + fans.out)));
  if (asked.type == "glorot_normal" || asked.type == "xavier_normal")
    return normal("random_normal", std::sqrt(2 / (fans.in + fans.out)));
  return asked;
}

}  // namespace flow
