// What a job computes otherwise than before, in the words of its file.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// A line for each key of job `job` that has another value: "optimizer.learning_rate: 0.1 in the
/// run, 0.2 now". Hooks and the run section are left out, as `--resume` ignores them; what merely
/// follows from other keys (shapes inside, gradients) is listed only where nothing else is.
std::vector<std::string> job_changes(const Plan& in_run, const Plan& now, const std::string& job);

}  // namespace flow::plan
