// Which results may lie in the memory of what they are made from.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "runtime/plan/model/plan.h"

namespace flow {

/// Sets `alias` where a backend may compute in place: a reshape of anything but a variable, and an
/// elementwise step that is the last to read its first input. `tensor_of`: by ValueId.
void add_aliases(const ir::Graph& graph, const std::vector<plan::TensorId>& tensor_of,
                 plan::Job& job);

}  // namespace flow
