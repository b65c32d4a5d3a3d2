// How long a step will take, roughly: enough to compare steps, and to decide whether a second
// thread pays.
#pragma once

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Seconds on one thread of a fast CPU; of a step of shards, for one of them.
double estimate_seconds(const Job& job, const Step& step);

/// Of a call in which no probe runs, of all shards.
double estimate_call_seconds(const Job& job);

}  // namespace flow::plan
