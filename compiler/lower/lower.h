// Lowers a graph to a plan: tensors, steps in order, and probes for watched values inside fused
// steps.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/source/source.h"
#include "runtime/plan/model/plan.h"

namespace flow {

/// Maps values of the graph to tensors of the plan. A watched value that a pass has fused away also
/// has a tensor, the result of its probe.
struct Lowered {
  std::vector<plan::TensorId> tensor_of;  // indexed by ValueId; invalid if not in the plan
};

/// Sets `job.device`, `job.tensors`, `job.variables` and `job.steps` from the graph. The caller
/// adds everything that drives the calls (the sources of inputs, returns, hooks, the schedule, the
/// run section), and finds the tensors through `tensor_of`. After that, plan::assign_lifetimes
/// assigns the lifetimes.
Lowered lower(const ir::Graph& graph, const Sources& sources, plan::Job& job);

}  // namespace flow
