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

/// By ValueId: does each pass of the loop compute it? It depends on a state or on random numbers.
/// Numbers that the first value of a state depends on are drawn once.
std::vector<bool> values_of_passes(const ir::Graph& graph);

}  // namespace flow::passes
