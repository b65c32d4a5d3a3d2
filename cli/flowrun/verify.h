// `flowrun verify JOB FILE`.
#pragma once

#include "cli/flowrun/verify_options.h"

namespace flow::cli {

/// Returns the exit status. REQUIRES: this process has one thread.
int run_verify(const VerifyOptions& options);

}  // namespace flow::cli
