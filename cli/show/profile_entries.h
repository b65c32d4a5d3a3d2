// Where the time of a run went, by the entries of the job file.
#pragma once

#include <string>

#include "runtime/exec/core/profile.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

/// A line for each entry of the job's graphs, the longest first: the median time of a step's
/// forward pass, its gradients and its updates, and what that makes of the roof. An entry that is
/// fused onto another one is counted there. `source`: the job file, whose lines go without its
/// name.
std::string entries_table(const exec::ProfileReport& report, const plan::Job& job,
                          const std::string& source);

}  // namespace flow::cli
