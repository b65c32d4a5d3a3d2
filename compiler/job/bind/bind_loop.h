// The loop of a predict job meets the graph: states, and what is returned of all passes.
#pragma once

#include "compiler/job/bind/bind.h"

namespace flow::job {

/// Resolves what is fed back, and stacks returned results of passes. False after an error.
/// REQUIRES: the job has a loop, and `bound` is complete.
bool bind_loop(Reader& reader, Instance& instance, const Job& job, Bindings& bound);

}  // namespace flow::job
