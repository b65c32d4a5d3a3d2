// Steps that all ranks run together.
#pragma once

#include <cstdint>

#include "runtime/exec/run/executor.h"

namespace flow::exec {

/// Runs the steps on all ranks, where the execution has several: rank 0 tells the others to run
/// those of job `job`, as Order counts them. What fails on one rank is the error of rank 0's
/// result. Without ranks: as execute.
RunResult execute_on_ranks(const Execution& execution, int64_t job);

}  // namespace flow::exec
