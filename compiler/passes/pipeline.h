// Declares the passes and their order. A pass is one function that rewrites the graph.
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

/// A value that the job minimizes: a float tensor of any shape.
struct Loss {
  ir::ValueId value;
  std::string name;  // the name in the job file
  Span span;
};

/// The factor on the loss that keeps small gradients from underflowing to zero in 16 bits.
struct LossScale {
  double initial = 1;
  /// Whether the scale adapts to the gradients. It grows after `growth_interval` steps with finite
  /// gradients.
  bool dynamic = false;
  double growth_factor = 2, backoff_factor = 0.5, growth_interval = 2000;
};

/// The training section of the job file, as data for the passes. Absent in predict jobs.
struct Training {
  std::vector<Loss> losses;               // contains at least one
  std::vector<ir::ValueId> variables;     // the trained variables
  std::vector<double> rate_scales;        // a factor on the learning rate for each variable
  std::vector<double> weight_decays;      // one for each variable; 0 if the op has no weight decay
  bool decays_gradients = false;          // weight decay is an L2 penalty
  std::vector<ir::ValueId> gradients_of;  // watched values whose gradients must also exist
  std::string update = "sgd_update";      // an op that reads gradient, variable, slots
  // The attributes of the update op, except those that differ between variables.
  ir::Attributes attributes;
  double slot_start = 0;  // the value of the slots before the first step
  std::optional<plan::optimizers::Adafactor> adafactor;
  std::optional<plan::optimizers::Muon> muon;
  std::vector<bool> by_muon;  // for each variable, if `muon` is set; false: `update` applies
  std::optional<plan::Lookahead> lookahead;
  std::optional<double> clip_norm;   // a limit on the norm of all gradients together
  double clip_epsilon = 0;           // added to the norm before `clip_norm` is divided by it
  bool norm = false;                 // computes the norm of all gradients even without clipping
  std::optional<double> clip_value;  // a limit on each element of a gradient
  std::optional<LossScale> loss_scale;
  std::optional<double> ema_decay;  // the decay of the moving averages of trained variables
  std::string job;                  // the job's name, for the variables of the loss scale

  /// The names of the losses, such as "a" or "a + b".
  std::string loss_name() const;
  /// The number of elements of the first loss. REQUIRES: the batch is not yet cut into shards.
  int64_t loss_elements(const ir::Graph& graph) const;
  bool scales_dynamically() const { return loss_scale && loss_scale->dynamic; }
  /// The constant factor on all gradients; 1 if the scale is dynamic.
  double static_scale() const {
    return loss_scale && !loss_scale->dynamic ? loss_scale->initial : 1;
  }
};

/// A gradient of only those rows of a variable that a batch has picked. `rows` contains one sum for
/// each distinct index. `indices` contains these indices in ascending order, followed by -1 in
/// unused places.
struct SparseGradient {
  ir::ValueId variable, rows, indices;
};

struct Context {
  std::optional<Training> training;
  std::optional<DType> low_precision;  // the 16-bit dtype of products in mixed-precision jobs
  // The passes set the following members.
  ir::ValueId mean_loss;               // the scalar that is logged
  int64_t loss_elements = 1;           // elements of the first loss, for the whole batch
  ir::ValueId loss_scale, factor;      // the dynamic scale; the factor on gradients
  ir::ValueId gradient_norm;           // of all gradients before clipping; invalid if not computed
  std::vector<SparseGradient> sparse;  // of the variables with sparse gradients
  /// Gradients that hooks read, divided by the dynamic scale, as pairs of a value and its gradient.
  std::vector<std::pair<ir::ValueId, ir::ValueId>> unscaled;
};

/// Returns the gradient with respect to `value` that hooks read. It still contains a static scale.
/// Invalid if the loss does not depend on `value`.
ir::ValueId delivered_gradient(const ir::Graph& graph, const Context& context, ir::ValueId value);

struct Pass {
  std::string_view name;
  void (*run)(ir::Graph&, Context&, Diags&);
};

/// All passes, first to last.
std::span<const Pass> pipeline();

/// Runs all passes. If `verify` is set (tests, --dump-after), calls ir::verify after each of them.
/// Appends the graph's text to `dump` after the pass named `dump_after`.
void run_pipeline(ir::Graph& graph, Context& context, Diags& diags, bool verify = false,
                  std::string_view dump_after = {}, std::string* dump = nullptr);

}  // namespace flow::passes
