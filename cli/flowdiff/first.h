// `flowdiff --first GOLDEN OUT`: the step and the tensor in which two runs part.
#pragma once

#include "cli/flowdiff/compare.h"

namespace flow::cli {

/// Compares fingerprints, makes both runs again up to that step, prints and writes reports; the
/// exit status.
int run_first(const CompareOptions& options);

}  // namespace flow::cli
