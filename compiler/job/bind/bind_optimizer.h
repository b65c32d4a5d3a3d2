// The optimizer's losses and patterns, resolved to values of the job's graph.
#pragma once

#include <optional>

#include "compiler/job/bind/instantiate.h"
#include "compiler/passes/pipeline.h"

namespace flow::job {

/// What the passes need to know of the job's optimizer, but for watched gradients. Nothing after
/// an error. REQUIRES: job.optimizer, with something to minimise.
std::optional<passes::Training> bind_optimizer(Reader& reader, Instance& instance, const Job& job);

}  // namespace flow::job
