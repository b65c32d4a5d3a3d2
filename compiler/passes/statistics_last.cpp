// Moving statistics are written in place, so they move behind all that reads them.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "ops/core/spec.h"

namespace flow::passes {

void statistics_last(ir::Graph& graph, Context&, Diags&) {
  std::vector<ir::Node> nodes = std::move(graph.nodes);
  std::stable_partition(nodes.begin(), nodes.end(),
                        [](const ir::Node& node) { return !node.op->moves_statistics(); });
  graph.set_nodes(std::move(nodes));
}

}  // namespace flow::passes
