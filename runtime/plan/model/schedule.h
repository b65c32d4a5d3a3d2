// Learning rates as functions of the global step: the types that a plan may name, and what they are
// worth at each step.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// A number of a schedule and its range; both bounds included.
struct ScheduleNumber {
  std::string_view name;
  double min = 0;
  double max = std::numeric_limits<double>::max();
  bool whole = false;
};

struct ScheduleType {
  std::string_view type;
  std::vector<ScheduleNumber> numbers;
  /// How many rates it has beyond its boundaries, or kNone where it has neither.
  int more_rates = kNone;
  /// Of the step, where there is no warm-up or it is over.
  double (*rate)(const Schedule&, int64_t step);

  static constexpr int kNone = -1;
};

std::span<const ScheduleType> schedule_types();
/// The type of that name, or null.
const ScheduleType* find_schedule_type(std::string_view type);

/// The learning rate of a step. REQUIRES: the plan check passed the schedule; step >= 0.
double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace flow::plan
