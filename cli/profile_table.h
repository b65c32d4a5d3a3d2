// Where the time of a run went, as people read it.
#pragma once

#include <string>

#include "runtime/exec/run/profile.h"

namespace flow::cli {

/// A line for each thing that the threads of a run do, then one for each step of a call, the
/// longest first; the shortest are summed up.
std::string profile_table(const exec::ProfileReport& report);

}  // namespace flow::cli
