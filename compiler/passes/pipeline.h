// The passes in their order. A pass is one function that rewrites the graph.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/ir/graph.h"
#include "runtime/plan/model/optimizers.h"

namespace flow::passes {

/// What is minimized: a float tensor of any shape.
struct Loss {
  ir::ValueId value;
  std::string name;  // as the file names it
  Span span;
};

/// The scale of the loss that keeps small gradients from vanishing in 16 bits.
struct LossScale {
  double initial = 1;
  /// Where it follows the gradients: growth after `growth_interval` finite ones.
  bool dynamic = false;
  double growth_factor = 2, backoff_factor = 0.5, growth_interval = 2000;
};

/// What the job file says about training; data for the passes. Absent in predict jobs.
struct Training {
  std::vector<Loss> losses;               // at least one
  std::vector<ir::ValueId> variables;     // to be trained
  std::vector<double> rate_scales;        // by variable: times the learning rate
  std::vector<double> weight_decays;      // by variable; 0 where the op knows none
  bool decays_gradients = false;          // weight decay is an L2 penalty
  std::vector<ir::ValueId> gradients_of;  // watched values whose gradients must exist too
  std::string update = "sgd_update";      // an op: of gradient, variable, slots
  ir::Attributes attributes;              // of that op, but what is each variable's own
  double slot_start = 0;                  // value of the slots before the first step
  std::optional<plan::optimizers::Adafactor> adafactor;
  std::optional<plan::optimizers::Muon> muon;
  std::vector<bool> by_muon;  // by variable, where `muon` is: others have the update above
  std::optional<plan::Lookahead> lookahead;
  std::optional<double> clip_norm;   // of all gradients together
  double clip_epsilon = 0;           // added to the norm before clip_norm is divided by it
  bool norm = false;                 // of all gradients is computed without clipping, too
  std::optional<double> clip_value;  // of each element
  std::optional<LossScale> loss_scale;
  std::optional<double> ema_decay;  // of averages of the trained variables
  std::string job;                  // its name, for the loss scale's variables

  /// "a", "a + b"
  std::string loss_name() const;
  /// Of the first loss, before the batch is cut into shards.
  int64_t loss_elements(const ir::Graph& graph) const;
  bool scales_dynamically() const { return loss_scale && loss_scale->dynamic; }
  /// The constant factor on all gradients; 1 where the scale is dynamic.
  double static_scale() const {
    return loss_scale && !loss_scale->dynamic ? loss_scale->initial : 1;
  }
};

/// A gradient of the rows of a variable that a batch has picked: sums of the same index, and the
/// indices in order, -1 behind them.
struct SparseGradient {
  ir::ValueId variable, rows, indices;
};

struct Context {
  std::optional<Training> training;
  std::optional<DType> low_precision;  // the 16-bit dtype of products, in mixed jobs
  // Made by the passes:
  ir::ValueId mean_loss;               // the scalar that is logged
  int64_t loss_elements = 1;           // of the first loss, of the whole batch
  ir::ValueId loss_scale, factor;      // dynamic: the variable; what gradients are multiplied by
  ir::ValueId gradient_norm;           // of all gradients before they are clipped; invalid: unknown
  std::vector<SparseGradient> sparse;  // of variables that are trained by them
  /// Gradients that hooks read, with a dynamic scale undone: (value, its gradient).
  std::vector<std::pair<ir::ValueId, ir::ValueId>> unscaled;
};

/// The gradient with respect to `value` that hooks read, still larger by a static scale; invalid
/// when the loss does not depend on it.
ir::ValueId delivered_gradient(const ir::Graph& graph, const Context& context, ir::ValueId value);

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
