// Where the time of a run went, as people read it.
#pragma once

#include <string>

#include "runtime/exec/core/profile.h"

namespace flow::cli {

/// A line for each thing that the threads of a run do, one for each entry of the job (see
/// entries_table), then one for each step of a call, the longest first; the shortest are summed up.
std::string profile_table(const exec::ProfileReport& report, const plan::Job& job,
                          const std::string& source);

}  // namespace flow::cli
