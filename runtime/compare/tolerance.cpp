// The tolerance of an array by its dtype, name and step.
#include "runtime/compare/tolerance.h"

#include <algorithm>

#include "runtime/base/text.h"

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

}  // namespace flow::compare
