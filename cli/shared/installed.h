// What is installed with the programs, found relative to them: the prefix may have been moved.
#pragma once

#include "runtime/base/file.h"

namespace flow::cli {

/// The file of the running program; empty where the system does not say.
fs::path running_program();

/// PREFIX/share/flow/jobs of the running program; empty where it is not installed.
fs::path installed_jobs();

}  // namespace flow::cli
