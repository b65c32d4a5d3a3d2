// `flowc report`: runs as one HTML file.
#pragma once

#include "cli/flowc/options.h"

namespace flow::cli {

/// Reads the run directories `options.files` and what `--diff` names, and writes where `-o` says.
/// Returns the exit status.
int write_report(const FlowcOptions& options);

}  // namespace flow::cli
