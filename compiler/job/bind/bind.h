// The names in a job's hooks, returns, optimizer and loop, resolved to values of its graph; and
// what drives the calls of the job, written into its plan: inputs, returns, hooks, schedule, run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/job/bind/instantiate.h"
#include "compiler/job/read/job.h"
#include "compiler/lower/lower.h"
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

/// Variables are shared by name between the jobs of a file: their shapes must agree.
class SharedVariables {
 public:
  /// Reports each variable of `graph` that an earlier job has with another shape.
  void check(Reader& reader, const Job& job, const ir::Graph& graph);

 private:
  struct First {
    std::string job;
    Shape shape;
    Span span;
  };
  std::map<std::string, First> first_;
};

/// What the passes need to know of the job's optimizer, but for watched gradients. Nothing after
/// an error. REQUIRES: job.optimizer, with something to minimize.
std::optional<passes::Training> bind_optimizer(Reader& reader, Instance& instance, const Job& job);

/// Resolves what is fed back, and stacks returned results of passes. False after an error.
/// REQUIRES: the job has a loop, and `bound` is complete.
bool bind_loop(Reader& reader, Instance& instance, const Job& job, Bindings& bound);

/// Fills everything of `made` but tensors, variables and steps, which `lowered` describes.
void write_io_spec(Reader& reader, const File& file, const Job& job, const ir::Graph& graph,
                   const Bindings& bindings, const Lowered& lowered, plan::Job& made);

/// The column of a dataset without `shape:` has the rows of the input that reads it; two inputs
/// that disagree are an error.
void check_implied_rows(Reader& reader, const File& file, const Job& job);

}  // namespace flow::job
