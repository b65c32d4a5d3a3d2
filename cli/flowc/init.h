// `flowc init`: new job files from those of jobs/.
#pragma once

#include "cli/flowc/options.h"

namespace flow::cli {

/// Writes a job file and its schema, or lists the templates where none is named. RequestError where
/// there is such a file, or no such template or folder. Returns the exit status.
int init_job_file(const FlowcOptions& options);

}  // namespace flow::cli
