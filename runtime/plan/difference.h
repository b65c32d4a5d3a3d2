// Finds where two plans differ, and which keys of the job file make a job compute something else
// than before.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// One value that differs between two plans, as JSON. `a` or `b` is absent if that plan has no such
/// value.
struct Difference {
  std::string path;  // "train.steps[lenet/conv1/conv].attributes.strides"
  std::optional<std::string> a, b;
};

/// Returns all differences in what the plans do, in the order of the plans. Elements of lists that
/// have names are compared by name. Places in files, the root and notes are left out.
std::vector<Difference> differences(const Plan& a, const Plan& b);

/// A key whose value has changed.
struct JobChange {
  std::string key, before, after;  // "optimizer.learning_rate", "0.1", "0.2"
};

/// Returns the keys of job `job` whose values differ. Hooks and the run section are left out. Keys
/// that merely follow from other keys (inner shapes, gradients) are listed only if no other key
/// differs. REQUIRES: both plans have the job.
std::vector<JobChange> list_job_changes(const Plan& before, const Plan& after,
                                        const std::string& job);

/// Returns a line for each key of job `job` whose value differs: "optimizer.learning_rate: 0.1 in
/// the run, 0.2 now". Hooks and the run section are left out, because `--resume` ignores them. Keys
/// that merely follow from other keys (inner shapes, gradients) are listed only if no other key
/// differs.
std::vector<std::string> job_changes(const Plan& in_run, const Plan& now, const std::string& job);

}  // namespace flow::plan
