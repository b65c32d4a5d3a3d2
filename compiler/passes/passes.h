// Declares the passes of the pipeline and their shared parts: the queries that passes make before
// they fuse (which node reads which value on the main path), optimizer updates that consist of
// several ops, and the shapes of one shard. Probes and watched values do not count as reads on the
// main path, so watching a value never changes a result.
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

/// Slices shared values if the batch has shards. A value that all shards share, and that has a
/// slice for each row of the batch, may be combined with rows. Each shard then gathers only the
/// slices of its rows, by their row numbers.
void slice_shared(ir::Graph& graph, Context& context, Diags& diags);

/// Adds the gradients of the summed loss with respect to the trained and the watched values, and
/// records them in graph.gradients. The watched gradients are also added to graph.watched.
void autodiff(ir::Graph& graph, Context& context, Diags& diags);

/// Turns every stop_gradient into a reshape.
void drop_stop_gradients(ir::Graph& graph, Context& context, Diags& diags);

/// Adds the mean loss, the optimizer's slots, and the update of each trained variable. An update is
/// placed as early as its gradient and the other reads of the variable allow.
void add_updates(ir::Graph& graph, Context& context, Diags& diags);

/// Moves the updates of moving statistics to the end. They keep the order of the calls that they
/// belong to.
void statistics_last(ir::Graph& graph, Context& context, Diags& diags);

/// Drops nodes that nothing reads, and marks nodes that only hooks read as probes.
void remove_dead(ir::Graph& graph, Context& context, Diags& diags);

/// Does nothing unless the batch has shards. Puts the nodes that each shard runs on its rows before
/// the nodes that run once, and cuts the shapes of rows to those of one shard. Reports ops that
/// shards cannot compute.
void cut_shards(ir::Graph& graph, Context& context, Diags& diags);

/// Replaces a sum of slice_grads whose parts exactly cover a tensor by a concat or stack of the
/// parts' gradients. The numbers are identical, and each is written once.
void join_slice_grads(ir::Graph& graph, Context& context, Diags& diags);

/// Replaces a sum of products that are the gradients of one weight by one product of the
/// concatenated operands, if the concatenation copies less than the sum writes. Treats the gradient
/// of the bias the same way. Does nothing with shards, because the rows of a shard are elsewhere in
/// the batch.
void join_shared_grads(ir::Graph& graph, Context& context, Diags& diags);

/// Rewrites relu_grad(max_pool2d_grad(dp)) to max_pool2d_grad(relu_grad(dp)), which computes
/// bit-identical numbers from fewer elements.
void move_relu_grad(ir::Graph& graph, Context& context, Diags& diags);

/// Fuses relu_grad into the gradients of the batch normalization before the relu. These ops
/// recompute which elements relu has passed on, and their results are bit-identical.
void fuse_relu_grad(ir::Graph& graph, Context& context, Diags& diags);

/// Makes the products of a mixed-precision job read their operands rounded to 16 bits.
void low_precision_products(ir::Graph& graph, Context& context, Diags& diags);

/// Fuses bias_add, relu and the rounding to 16 bits onto the product or convolution before them, if
/// they are the only readers of its result.
void fuse_epilogues(ir::Graph& graph, Context& context, Diags& diags);

/// Fuses sgd_update onto the product that makes its gradient. Does nothing with shards, because
/// each of them makes only a part of the gradient.
void fuse_updates(ir::Graph& graph, Context& context, Diags& diags);

/// Handles variables that are stored in 16 bits. A node that reads one in the job's float dtype
/// gets its own cast right before it, so that the widened values can reuse the same memory.
void widen_variables(ir::Graph& graph, Context& context, Diags& diags);

/// Adds a copy for each value that a node reads from the other device; each value is copied once.
/// If all nodes are placed on one device, the job runs there.
void place_devices(ir::Graph& graph, Context& context, Diags& diags);

/// Orders the nodes of a job with a loop: first the nodes that run once, then those of a pass, then
/// those that follow the last pass. Lets the node that computes the next value of a state write it
/// in place if possible, or else adds a copy.
void order_loop(ir::Graph& graph, Context& context, Diags& diags);

/// Counts the reads of each value, indexed by ValueId: as operands of nodes other than probes, as
/// results of the graph, and as updated variables.
std::vector<int> main_reads(const ir::Graph& graph);

/// Returns every value that the node reads, including the operands of its epilogue ops.
std::vector<ir::ValueId> reads_of(const ir::Node& node);

/// Returns whether each pass of the loop computes a value, indexed by ValueId. A pass computes a
/// value if it depends on a state or on random numbers. Random numbers that the first value of a
/// state depends on are drawn only once.
std::vector<bool> values_of_passes(const ir::Graph& graph);

/// The update of one variable: its gradient and the hyperparameters of this variable.
struct ComposedUpdate {
  ir::Builder& builder;  // adds nodes on the device of the variable
  ir::ValueId variable, gradient;
  ir::ValueId factor;     // multiplies the gradient; invalid if there is no factor
  bool may_skip = false;  // the factor may be NaN; if it is, the update is skipped
  double scale = 1;       // multiplies the gradient
  double rate_scale = 1, weight_decay = 0;
};

/// Returns the variable's new value. Adds the slots, and sets the updated values of the slots and
/// of the variable. REQUIRES: `rule.epsilon1` is not 0.
ir::ValueId add_adafactor(const ComposedUpdate& update, const plan::optimizers::Adafactor& rule);

/// Does the same for the Muon update of a matrix.
ir::ValueId add_muon(const ComposedUpdate& update, const plan::optimizers::Muon& rule);

/// Returns the axis along which `part` is shorter than `whole`, or nothing if the shapes are equal.
std::optional<int> cut_axis(const Shape& whole, const Shape& part);

class ShardShapes {
 public:
  /// Borrows the graph, whose batch is not yet cut. `is_shared` returns true if a value is the same
  /// on each shard.
  ShardShapes(const ir::Graph& graph, std::function<bool(ir::ValueId)> is_shared);

  /// The number of rows of the whole batch.
  int64_t batch() const { return batch_; }
  /// Divides the extent of `axis` by the number of shards. Returns false if it is not a multiple.
  bool cut(Shape& shape, int axis) const;
  /// Cuts the attributes that contain shapes: that of the result along `axis`, and that of the
  /// first operand along its batch axis.
  void cut_attributes(ir::Node& node, int axis) const;

  /// Returns the results of the op for these operands, or nothing if the op rejects them.
  std::vector<ops::Result> infer(const ops::OpSpec& op, std::vector<ops::Operand> operands,
                                 const ir::Attributes& attributes, int64_t batch) const;
  /// Cuts the shapes of operands that all shards share until the node, whose attributes are those
  /// of one shard, computes `expected` from them. Returns false if no cut achieves this.
  bool fit(const ir::Node& node, const std::vector<ir::Value>& expected,
           std::vector<Shape>& shapes) const;
  std::vector<Shape> shapes_of_operands(const ir::Node& node) const;

  /// The node that recomputes a shared value cut along an axis, the value that it makes, and the
  /// shapes of its operands. remake() returns nothing if this needs a slice of the value itself.
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

/// Finds the values that gradients flow through, from the losses to the trained and the watched
/// values, and reports errors in these paths.
class GradientPaths {
 public:
  /// Borrows the graph, which does not contain gradients yet.
  GradientPaths(const ir::Graph& graph, const Training& training, Diags& diags)
      : graph_(graph),
        training_(training),
        diags_(diags),
        forward_(graph.nodes.size()),
        needed_(graph.values.size()),
        reached_(graph.values.size()),
        uses_(graph.values.size()) {}

  /// Finds the paths from all losses. Reports errors, and returns false if there are any.
  bool find();
  /// Marks each needed value that a loss depends on as reached, and counts the parts that its
  /// gradient has.
  void reach(const std::vector<Loss>& losses);
  bool is_wanted(ir::ValueId id) const { return needed_[id.index()]; }
  /// The number of parts of a value's gradient.
  int uses(ir::ValueId id) const { return uses_[id.index()]; }
  bool is_on_path(const ir::Node& node) const;
  /// The position of `sparse:` for this variable; null for values without it.
  const Span* sparse_at(ir::ValueId id) const;

 private:
  bool check_loss(const Loss& loss);
  /// Returns a vector indexed by ValueId: true for `roots` and for every float value through which
  /// gradients reach them. These values may have any float dtype; the gradients themselves have the
  /// dtype of the job.
  std::vector<bool> made_from(const std::vector<ir::ValueId>& roots) const;
  /// Marks values as needed. A value is needed if its gradient is requested or if it depends on a
  /// value whose gradient is requested.
  void mark_needed();
  void report_secondary(const ir::Node& node, ir::ValueId port);
  /// Reports an error for each loss that reaches no variable, and a warning for each variable that
  /// no loss reaches.
  bool check_variables();
  /// Reports sparse gradients in a job with several shards, which does not support them.
  bool check_sparse();
  /// Reports a loss that depends on no variable. If an op without a gradient blocks the path to a
  /// variable, the error names that op.
  void report_independence(const Loss& loss, const std::vector<bool>& made_from_variables);
  /// Returns the node nearest to the loss that depends on variables and passes on no gradient.
  ir::NodeId find_blocking(const Loss& loss, const std::vector<bool>& made_from_variables) const;

  const ir::Graph& graph_;
  const Training& training_;
  Diags& diags_;
  const size_t forward_;  // nodes before this one belong to the forward graph
  // These vectors are indexed by ValueId of the forward graph.
  std::vector<bool> needed_, reached_;
  std::vector<int> uses_;
};

}  // namespace flow::passes
