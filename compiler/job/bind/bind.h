// The names in a job's hooks, returns and optimizer, resolved to values of its graph.
#pragma once

#include <string>
#include <vector>

#include "compiler/job/bind/instantiate.h"
#include "compiler/job/read/job.h"
#include "compiler/passes/pipeline.h"

namespace flow::job {

/// One tensor that one hook watches.
struct Watched {
  const Hook* hook = nullptr;
  plan::Hook::Kind kind = plan::Hook::Kind::kWatch;
  std::string name;  // as delivered
  std::string op;    // that makes it, before passes; or "variable", "input"
  ir::ValueId value;
};

struct Bindings {
  std::vector<ir::ValueId> returned;  // the leaves of `returns.value`, first to last
  std::vector<Watched> watched;
  passes::Context context;
  bool complete = true;  // false after an error: the passes cannot run
};

/// Resolves all names, reports unknown ones, and marks in the graph which results are read.
Bindings bind(Reader& reader, Instance& instance, const Job& job);

/// Warns of cross entropies whose labels depend on these variables, which are trained, while their
/// logits do not. Before the passes.
void warn_of_swapped_labels(Reader& reader, const ir::Graph& graph,
                            const std::vector<ir::ValueId>& variables);

/// After the passes: drops or reports what has no gradient. REQUIRES: bindings.complete.
void check_gradients(Reader& reader, const ir::Graph& graph, const Job& job, Bindings& bindings);

}  // namespace flow::job
