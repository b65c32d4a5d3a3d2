// The parts of a plan as JSON values.
#pragma once

#include "runtime/plan/json.h"
#include "runtime/plan/plan.h"

namespace flow::plan {

/// A job; without the places in the job file (`where`) when they are not wanted.
Json json_of(const Job& job, bool with_places);

}  // namespace flow::plan
