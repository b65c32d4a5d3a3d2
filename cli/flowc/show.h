// `flowc show` and `flowc diff`: what jobs compute and cost, and how two files differ in that.
#pragma once

#include "cli/flowc/options.h"

namespace flow::cli {

/// Prints tables, the plan or a picture. RequestError for options that exclude each other. Returns
/// the exit status.
int show_file(const FlowcOptions& options);

/// Compares two job files or plans. Returns the exit status: kCheckFailed where the plans differ.
int diff_files(const FlowcOptions& options);

}  // namespace flow::cli
