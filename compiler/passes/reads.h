// Who reads what on the main path: what passes ask before they fuse. Probes and watched values do
// not count, so that watching changes no number.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace flow::passes {

/// By ValueId: how many operands of nodes that are no probes, results and updated variables are
/// that value.
std::vector<int> main_reads(const ir::Graph& graph);

/// Every value that the node reads, its epilogue ops' operands included.
std::vector<ir::ValueId> reads_of(const ir::Node& node);

}  // namespace flow::passes
