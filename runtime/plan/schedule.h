// Learning rates as functions of the global step.
#pragma once

#include <cstdint>

#include "runtime/plan/plan.h"

namespace flow::plan {

/// The learning rate at global step `step`, counted from 0, in float64.
double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace flow::plan
