// What a run's data files hold, in short: a resumed run goes on with the same data.
#pragma once

#include <map>
#include <string>

#include "runtime/exec/run.h"

namespace flow::exec {

/// Digests of the job's data by column ("digits.labels") or input. A large file is looked at in
/// places, and pipes are left out. RunError where a file cannot be read.
std::map<std::string, std::string> data_digests(const RunRequest& request);

}  // namespace flow::exec
