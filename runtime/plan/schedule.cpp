// Learning rates as functions of the global step.
#include "runtime/plan/schedule.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace flow::plan {

namespace {

/// Value i for the first i with step <= boundaries[i], else the last.
double piecewise_constant(const Schedule& schedule, int64_t step) {
  const auto& boundaries = schedule.boundaries;
  const auto passed = std::ranges::lower_bound(boundaries, step) - boundaries.begin();
  return schedule.rates[static_cast<size_t>(passed)];
}

}  // namespace

double learning_rate(const Schedule& schedule, int64_t step) {
  if (schedule.type == "piecewise_constant") return piecewise_constant(schedule, step);
  FLOW_CHECK(schedule.type == "constant", "schedule {}", schedule.type);
  return schedule.values.at("base");
}

}  // namespace flow::plan
