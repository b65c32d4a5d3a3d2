// Once gradients are made, stop_gradient is a reshape to the same shape, which costs nothing.
#include "compiler/passes/passes.h"
#include "ops/core/known.h"

namespace flow::passes {

void drop_stop_gradients(ir::Graph& graph, Context&, Diags&) {
  for (ir::Node& node : graph.nodes) {
    if (!node.op->dropped || node.op == ops::kShardRows) continue;
    node.op = ops::find_spec("reshape");
    node.attributes.set("shape", graph[node.results[0]].shape.extents());
  }
}

}  // namespace flow::passes
