// The tolerance of an array by its dtype, name and step; constants, and tolerances wider than what
// they judge.
#include "runtime/compare/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/names.h"
#include "runtime/io/elements.h"

namespace flow::compare {

Tolerance default_tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return {1.3e-6, 1e-5};
    case DType::kFloat64:
      return {1e-7, 1e-7};
    case DType::kBFloat16:
      return {1.6e-2, 1e-5};
    case DType::kFloat16:
      return {1e-3, 1e-5};
    default:
      return {};
  }
}

Tolerance ToleranceRule::at_step(int64_t step) const {
  Tolerance found = tolerance;
  for (const StepTolerance& range : steps)
    if (step >= range.first && step < range.end) found = range.tolerance;
  return found;
}

double ToleranceRule::widest_relative() const {
  double widest = tolerance.relative;
  for (const StepTolerance& range : steps) widest = std::max(widest, range.tolerance.relative);
  return widest;
}

ToleranceRule rule_of(const std::string& name, DType dtype, const ToleranceRules& rules) {
  ToleranceRule found;
  found.tolerance = default_tolerance(dtype);
  if (is_float(dtype)) {
    found.tolerance.relative = rules.relative.value_or(found.tolerance.relative);
    found.tolerance.absolute = rules.absolute.value_or(found.tolerance.absolute);
  }
  for (const ToleranceRule& rule : rules.rules)
    if (glob_match(rule.glob, name)) found = rule;
  return found;
}

namespace {

template <typename T>
Spread spread_in(std::span<const T> values) {
  Spread spread;
  double sum = 0, magnitude = 0, squares = 0;
  spread.constant = values.size() >= 2;
  for (const T& element : values) {
    const auto value = static_cast<double>(element);
    spread.constant &= value == static_cast<double>(values.front());
    if (!std::isfinite(value)) continue;
    ++spread.finite;
    sum += value;
    magnitude += std::abs(value);
  }
  if (spread.finite == 0) return spread;
  const auto count = static_cast<double>(spread.finite);
  for (const T& element : values)
    if (const auto value = static_cast<double>(element); std::isfinite(value))
      squares += (value - sum / count) * (value - sum / count);
  spread.deviation = std::sqrt(squares / count);
  spread.mean_magnitude = magnitude / count;
  return spread;
}

}  // namespace

Spread spread_of(const ArrayView& golden) {
  return io::visit_elements(golden, [](auto values) {
    using T = std::remove_const_t<typename decltype(values)::element_type>;
    return spread_in<T>(values);
  });
}

std::vector<std::string> doubts_of_values(const ArrayView& golden, const Spread& spread,
                                          const std::string& first) {
  if (!is_float(golden.dtype) || !spread.constant) return {};
  return {fmt::format("golden is constant: every element is {}", first)};
}

bool is_too_wide(const Tolerance& tolerance, const Spread& spread) {
  if (spread.finite < 2) return false;
  return tolerance.relative >= 1 || tolerance.at(spread.mean_magnitude) >= spread.deviation;
}

}  // namespace flow::compare
