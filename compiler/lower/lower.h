// Graph -> plan: tensors, steps in order, probes for watched values inside fused steps.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/source/source.h"
#include "runtime/plan/model/plan.h"

namespace flow {

/// Where each value of the graph lies in the plan. A watched value that a pass fused away has a
/// tensor too: its probe's result.
struct Lowered {
  std::vector<plan::TensorId> tensor_of;  // by ValueId; invalid: not in the plan
};

/// Fills `job.device`, `job.tensors`, `job.variables` and `job.steps` from the graph. What drives
/// the calls (inputs' sources, returns, hooks, schedule, run section) is the caller's, by
/// tensor_of. Lifetimes are assigned by plan::assign_lifetimes once those stand.
Lowered lower(const ir::Graph& graph, const Sources& sources, plan::Job& job);

}  // namespace flow
