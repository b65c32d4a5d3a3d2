// Learning rates as functions of the global step.
#include "runtime/plan/schedule.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace flow::plan {

double learning_rate(const Schedule& schedule, int64_t step) {
  if (schedule.type == "constant") return schedule.values.at("base");
  FLOW_CHECK(schedule.type == "piecewise_constant", "schedule {}", schedule.type);
  // The first boundary that the step does not exceed: at the boundary the old rate still holds.
  const auto boundary = std::ranges::lower_bound(schedule.boundaries, step);
  return schedule.rates.at(static_cast<size_t>(boundary - schedule.boundaries.begin()));
}

}  // namespace flow::plan
