// The passes of the pipeline, and what passes ask before they fuse: who reads what on the main
// path. Probes and watched values do not count there, so that watching changes no number. Also
// updates of several steps, and shapes of one shard.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"
#include "compiler/passes/pipeline.h"
#include "ops/core/call.h"
#include "runtime/plan/model/optimizers.h"

namespace flow::passes {

/// Where the batch has shards: next to rows, what all shards share and has a slice for each row of
/// the batch is read by the numbers of a shard's rows.
void slice_shared(ir::Graph& graph, Context& context, Diags& diags);

/// Adds the gradients of the summed loss with respect to what is trained or watched, and records
/// them in graph.gradients. Watched ones join graph.watched.
void autodiff(ir::Graph& graph, Context& context, Diags& diags);

/// Makes a reshape of every stop_gradient.
void drop_stop_gradients(ir::Graph& graph, Context& context, Diags& diags);

/// Adds the mean loss, the optimizer's slots, and the update of each trained variable, as early as
/// its gradient and the other reads of the variable allow.
void add_updates(ir::Graph& graph, Context& context, Diags& diags);

/// Puts the updates of moving statistics last, each after that of the call before it.
void statistics_last(ir::Graph& graph, Context& context, Diags& diags);

/// Drops nodes that nothing reads, and marks those that hooks alone read as probes.
void remove_dead(ir::Graph& graph, Context& context, Diags& diags);

/// Where the batch has shards: orders nodes so that those that each shard runs on its own rows come
/// before those that run once, and cuts the shapes of rows. Reports what shards cannot compute.
void cut_shards(ir::Graph& graph, Context& context, Diags& diags);

/// The sum of slice_grads whose parts, side by side, are all of a tensor -> concat, or stack, of
/// the parts' gradients: the same numbers, each written once.
void join_slice_grads(ir::Graph& graph, Context& context, Diags& diags);

/// The sum of products that are the gradients of one weight -> one product of their operands below
/// one another, where that copies less than the sum writes; likewise for the bias after them. Not
/// of shards, whose rows lie elsewhere in the batch.
void join_shared_grads(ir::Graph& graph, Context& context, Diags& diags);

/// relu_grad(max_pool2d_grad(dp)) -> max_pool2d_grad(relu_grad(dp)): the same bits from fewer
/// elements.
void move_relu_grad(ir::Graph& graph, Context& context, Diags& diags);

/// relu_grad before the gradients of the batch normalization whose result was rectified: they tell
/// by themselves what relu has passed on, from the same bits.
void fuse_relu_grad(ir::Graph& graph, Context& context, Diags& diags);

/// Mixed precision: products read their operands rounded to 16 bits.
void low_precision_products(ir::Graph& graph, Context& context, Diags& diags);

/// Fuses bias_add, relu and the rounding to 16 bits onto the product or convolution whose result
/// they alone read.
void fuse_epilogues(ir::Graph& graph, Context& context, Diags& diags);

/// Fuses sgd_update onto the product that makes its gradient. Not where shards make parts of it.
void fuse_updates(ir::Graph& graph, Context& context, Diags& diags);

/// Variables that are kept in 16 bits: what reads one in the job's float dtype has it widened right
/// before, apart from other readers, so that all widened values take turns in the same memory.
void widen_variables(ir::Graph& graph, Context& context, Diags& diags);

/// Adds the copies of what a node reads of the other device, each value copied once. Where all
/// nodes are placed on one device, the job runs there.
void place_devices(ir::Graph& graph, Context& context, Diags& diags);

/// Where the job has a loop: puts first what runs once, then a pass, then what follows the last
/// one. Lets the states of the loop be written by what computes them, or else adds copies.
void order_loop(ir::Graph& graph, Context& context, Diags& diags);

/// By ValueId: how many operands of nodes that are no probes, results and updated variables are
/// that value.
std::vector<int> main_reads(const ir::Graph& graph);

/// Every value that the node reads, its epilogue ops' operands included.
std::vector<ir::ValueId> reads_of(const ir::Node& node);

/// By ValueId: does each pass of the loop compute it? It depends on a state or on random numbers.
/// Numbers that the first value of a state depends on are drawn once.
std::vector<bool> values_of_passes(const ir::Graph& graph);

/// A variable, what it is updated by, and the numbers that are its own.
struct ComposedUpdate {
  ir::Builder& builder;  // places what it adds where the variable lies
  ir::ValueId variable, gradient;
  ir::ValueId factor;     // on the gradient; invalid: none
  bool may_skip = false;  // the factor may be NaN, and nothing is updated then
  double scale = 1;       // of the gradient
  double rate_scale = 1, weight_decay = 0;
};

/// The variable's new value. Adds the slots, and says of them and of the variable what they become.
/// `rule.epsilon1` is not 0.
ir::ValueId add_adafactor(const ComposedUpdate& update, const plan::optimizers::Adafactor& rule);

/// The same of a matrix.
ir::ValueId add_muon(const ComposedUpdate& update, const plan::optimizers::Muon& rule);

/// The axis along which `part` is a part of `whole`; nothing where they are the same.
std::optional<int> cut_axis(const Shape& whole, const Shape& part);

class ShardShapes {
 public:
  /// `is_shared`: is the value the same on each shard? Borrows the graph, before its batch is cut.
  ShardShapes(const ir::Graph& graph, std::function<bool(ir::ValueId)> is_shared);

  /// The rows of the whole batch.
  int64_t batch() const { return batch_; }
  /// False if the extent is not a multiple of the number of shards.
  bool cut(Shape& shape, int axis) const;
  /// Extents of the result, cut along `axis`, and of what is read of the first operand.
  void cut_attributes(ir::Node& node, int axis) const;

  /// What the op makes of such operands; nothing where it refuses them.
  std::vector<ops::Result> infer(const ops::OpSpec& op, std::vector<ops::Operand> operands,
                                 const ir::Attributes& attributes, int64_t batch) const;
  /// Cuts shapes of operands that all shards share until the node, whose attributes are a shard's,
  /// makes `expected` of them. False where it does not.
  bool fit(const ir::Node& node, const std::vector<ir::Value>& expected,
           std::vector<Shape>& shapes) const;
  std::vector<Shape> shapes_of_operands(const ir::Node& node) const;

  /// The node that makes a shared value anew, cut along an axis, the value that it makes, and the
  /// shapes of its operands. Nothing where that needs a slice of the value itself.
  struct Remade {
    ir::Node node;
    ir::Value value;
    std::vector<Shape> shapes;
  };
  std::optional<Remade> remake(ir::ValueId value, int axis) const;

 private:
  bool makes(const ir::Node& node, const std::vector<Shape>& shapes,
             const std::vector<ir::Value>& expected) const;
  bool fit(const ir::Node& node, const std::vector<ir::Value>& expected, std::vector<Shape>& shapes,
           int& tries, size_t first) const;
  bool keeps_rows(const ir::Node& maker, const std::vector<Shape>& shapes, int axis) const;

  const ir::Graph& graph_;
  const std::function<bool(ir::ValueId)> is_shared_;
  const int64_t batch_;
};

/// The values that gradients flow through, from losses to what is trained or watched, and what is
/// wrong with these.
class GradientPaths {
 public:
  /// Borrows the graph, before gradients are added.
  GradientPaths(const ir::Graph& graph, const Training& training, Diags& diags)
      : graph_(graph),
        training_(training),
        diags_(diags),
        forward_(graph.nodes.size()),
        needed_(graph.values.size()),
        reached_(graph.values.size()),
        uses_(graph.values.size()) {}

  /// Finds the paths from all losses; false where something is wrong with them, which is reported.
  bool find();
  /// A needed value is reached if a loss depends on it; counts the parts that its gradient has.
  void reach(const std::vector<Loss>& losses);
  bool is_wanted(ir::ValueId id) const { return needed_[id.index()]; }
  /// How many parts the gradient of a value has.
  int uses(ir::ValueId id) const { return uses_[id.index()]; }
  bool is_on_path(const ir::Node& node) const;
  /// Where the file says `sparse:` of this variable; null for other values.
  const Span* sparse_at(ir::ValueId id) const;

 private:
  bool check_loss(const Loss& loss);
  /// By ValueId: `roots`, and every float value through which gradients reach them (of any
  /// float dtype; gradients themselves have the job's).
  std::vector<bool> made_from(const std::vector<ir::ValueId>& roots) const;
  /// A value is needed if it is, or is made from, something whose gradient is asked for.
  void mark_needed();
  void report_secondary(const ir::Node& node, ir::ValueId port);
  /// Each loss must reach a variable; each variable that none reaches is worth a warning.
  bool check_variables();
  /// Rows of several shards lie on none of them.
  bool check_sparse();
  /// Is there a way to a variable, were it not for an op without a gradient?
  void report_independence(const Loss& loss, const std::vector<bool>& made_from_variables);
  /// The node nearest the loss that reads what is made from variables, and passes no gradient on.
  ir::NodeId find_blocking(const Loss& loss, const std::vector<bool>& made_from_variables) const;

  const ir::Graph& graph_;
  const Training& training_;
  Diags& diags_;
  const size_t forward_;  // nodes before this one are the user's
  // All by ValueId of the forward graph.
  std::vector<bool> needed_, reached_;
  std::vector<int> uses_;
};

}  // namespace flow::passes
