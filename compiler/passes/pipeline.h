// The passes in their order. A pass is one function in one file that rewrites the graph.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/ir/graph.h"

namespace flow::passes {

/// What is minimised: a float tensor of any shape.
struct Loss {
  ir::ValueId value;
  std::string name;  // as the file names it
  Span span;
};

/// What the job file says about training; data for the passes. Absent in predict jobs.
struct Training {
  std::vector<Loss> losses;               // at least one, of equally many elements
  std::vector<ir::ValueId> variables;     // to be trained
  std::vector<ir::ValueId> gradients_of;  // watched values whose gradients must exist too
  std::string update = "sgd_update";      // an op: of gradient, variable, slots
  ir::Attributes attributes;              // of that op, but `scale` and `weight_decay`
  double weight_decay = 0;                // of those that decay, where the op knows it
  std::vector<ir::ValueId> decayed;
  std::optional<double> clip_norm;

  /// "a", "a + b"
  std::string loss_name() const;
  /// Of each loss.
  int64_t loss_elements(const ir::Graph& graph) const;
};

struct Context {
  std::optional<Training> training;
  bool float64 = false;   // precision
  ir::ValueId mean_loss;  // out: the scalar that is logged
};

struct Pass {
  std::string_view name;
  void (*run)(ir::Graph&, Context&, Diags&);
};

/// All passes, first to last.
std::span<const Pass> pipeline();

/// Runs them; calls ir::verify after each where `verify` is set (tests, --dump-after) and appends
/// the graph's text to `dump` after the pass of that name.
void run_pipeline(ir::Graph& graph, Context& context, Diags& diags, bool verify = false,
                  std::string_view dump_after = {}, std::string* dump = nullptr);

}  // namespace flow::passes
