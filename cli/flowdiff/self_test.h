// `flowdiff --self-test GOLDEN`.
#pragma once

#include "cli/flowdiff/compare.h"

namespace flow::cli {

/// Prints which faults the tolerances of GOLDEN let through; the exit status.
int run_self_test(const CompareOptions& options);

}  // namespace flow::cli
