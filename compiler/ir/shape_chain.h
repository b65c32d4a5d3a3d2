// Where a tensor's shape comes from, in one line.
#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/source/source.h"

namespace flow {

/// "pool1 is [64, 20, 6, 6] <- max_pool2d 4 (line 8) <- conv1 [64, 20, 24, 24] (line 7) <- ...":
/// from `value` back along first operands, entry by entry.
std::string shape_chain(const ir::Graph& graph, const Sources& sources, ir::ValueId value);

}  // namespace flow
