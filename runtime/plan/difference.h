// Where two plans part, and what a job computes otherwise than before, in words of the job file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// One value that is not the same in both, as JSON; absent where the plan has none.
struct Difference {
  std::string path;  // "train.steps[lenet/conv1/conv].attributes.strides"
  std::optional<std::string> a, b;
};

/// All that differs in what the plans do, in their order. What stands in a list under a name is
/// compared with what has the same name in the other; places in files, the root and notes are left
/// out.
std::vector<Difference> differences(const Plan& a, const Plan& b);

/// A key that has another value.
struct JobChange {
  std::string key, before, after;  // "optimizer.learning_rate", "0.1", "0.2"
};

/// The keys of job `job` with other values. Hooks and the run section are left out; what merely
/// follows from other keys (shapes inside, gradients) is listed only where nothing else is.
/// REQUIRES: both plans have the job.
std::vector<JobChange> list_job_changes(const Plan& before, const Plan& after,
                                        const std::string& job);

/// A line for each key of job `job` that has another value: "optimizer.learning_rate: 0.1 in the
/// run, 0.2 now". Hooks and the run section are left out, as `--resume` ignores them; what merely
/// follows from other keys (shapes inside, gradients) is listed only where nothing else is.
std::vector<std::string> job_changes(const Plan& in_run, const Plan& now, const std::string& job);

}  // namespace flow::plan
