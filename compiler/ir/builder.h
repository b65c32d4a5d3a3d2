// Declares the builder, through which all nodes enter a graph. It sets default attributes, checks
// operands, infers shapes, and makes names unique.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/rules.h"
#include "ops/core/spec.h"

namespace flow::ir {

/// Determines which nodes each shard computes only from its separate values. Has no effect unless
/// the batch has shards.
enum class PerShard : uint8_t {
  kNever,
  // Nodes that read such values, and no part of a value of the whole batch.
  kOfOwn,
  // Also nodes that read parts, or whose op needs the rows of other shards.
  kWhereAsked,
  // All nodes whose operands differ between shards. Used for the gradients of such nodes.
  kAlways
};

class Builder {
 public:
  /// New nodes are placed on the job's device.
  Builder(Graph& graph, Diags& diags) : graph_(graph), diags_(diags), device_(graph.device) {}

  /// Places all nodes, results and variables that are added from now on.
  void place_on(plan::DeviceKind device) { device_ = device; }

  /// Also determines whether each shard computes the new nodes separately: if `per_shard` is true,
  /// this applies to all nodes whose operands differ between shards; otherwise to none.
  void place(plan::DeviceKind device, bool per_shard) {
    device_ = device;
    per_shard_ = per_shard ? PerShard::kAlways : PerShard::kNever;
  }
  /// Determines which of the nodes that are added from now on are per shard.
  void compute_per_shard(PerShard which) { per_shard_ = which; }

  /// Adds an input of the job, or a variable. If the shape is too large, reports it and returns an
  /// invalid id.
  ValueId add_input(std::string name, DType dtype, Shape shape, int batch_axis, Span span);
  ValueId add_variable(std::string name, DType dtype, Shape shape, plan::Initializer initializer,
                       bool trainable, bool slot, Span span);

  /// Adds a slot of an optimizer. Its dtype and span are those of `like`, a variable or another
  /// value.
  ValueId add_slot(std::string name, const Value& like, Shape shape,
                   plan::Initializer initializer = {}) {
    return add_variable(std::move(name), like.dtype, std::move(shape), std::move(initializer),
                        false, true, like.span);
  }
  /// Adds the state of a loop, with the type of `of`. The compiler chooses the name of the value.
  ValueId add_state(std::string name, ValueId of);

  /// Adds a primitive. Attributes with defaults may be missing in `attributes`. The first result is
  /// named `name`, and other results `name.port`. If an operand is invalid (its error was reported
  /// before) or the shape rule fails, reports at most the latter and returns one invalid id for
  /// each result.
  std::vector<ValueId> add(const ops::OpSpec& op, std::string name, std::vector<ValueId> operands,
                           Attributes attributes, const AttributeSpans& spans);

  /// Adds a primitive whose operands and attributes are known to fit, for passes and rules; errors
  /// point at `span`. Returns the first result, or an invalid id if an operand is invalid or a
  /// tensor is too large.
  ValueId add(std::string_view op, std::string name, std::vector<ValueId> operands,
              Attributes attributes, Span span);

  /// Expands a layer: sets its default attributes, checks its operands, adds its variables and
  /// primitives, and adds an alias from the name of the entry to the last value. Returns that
  /// value, or an invalid id after an error. Attributes with defaults may be missing in
  /// `call.attributes`. An optional operand that is omitted before another operand is invalid.
  ValueId add_layer(const ops::OpSpec& layer, LayerContext call);

  /// Makes the entry `name` an alias of `value`. Does nothing if the value already has this name or
  /// is invalid.
  void alias(std::string name, ValueId value);

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  Diags& diags() { return diags_; }

 private:
  std::string unique(std::string name) const;
  bool are_swapped(const ops::OpSpec& op, const CallSite& site) const;
  /// Checks the number and the dtypes of the operands. `place` returns the record of operand i for
  /// a dtype.
  template <typename Place>
  bool check_operands(const ops::OpSpec& op, CallSite& site, Place place) const;
  bool is_per_shard(std::span<const ValueId> operands, const ops::Call& whole) const;
  std::vector<ops::Result> infer_per_shard(const ops::OpSpec& op, const ops::Call& whole,
                                           Attributes& attributes, CallSite& site) const;
  Graph& graph_;
  Diags& diags_;
  plan::DeviceKind device_;
  PerShard per_shard_ = PerShard::kNever;
};

}  // namespace flow::ir
