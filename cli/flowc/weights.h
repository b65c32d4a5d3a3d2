// `flowc names` and `flowc export`: weights of other programs, by name, in and out.
#pragma once

#include "cli/flowc/options.h"

namespace flow::cli {

/// Prints which arrays of a file become which variables, and proposes rules for the others. Returns
/// the exit status: kCheckFailed where a run could not load the file.
int list_names(const FlowcOptions& options);

/// Writes the variables of a checkpoint as .safetensors or .npz. Returns the exit status.
int export_weights(const FlowcOptions& options);

}  // namespace flow::cli
