// The one door through which nodes enter a graph: attributes defaulted, operands checked, shapes
// inferred, names made unique.
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

/// What each shard computes from its own values alone, where the batch has shards.
enum class PerShard : uint8_t {
  kNever,
  kOfOwn,       // what reads such values, and no part of a value of the whole batch
  kWhereAsked,  // also what reads parts, or needs rows of other shards
  kAlways       // all that is not the same on each shard: gradients of such nodes
};

class Builder {
 public:
  /// Places what it adds on the job's device.
  Builder(Graph& graph, Diags& diags) : graph_(graph), diags_(diags), device_(graph.device) {}

  /// From now on nodes, their results and variables are placed there.
  void place_on(plan::DeviceKind device) { device_ = device; }

  /// The same; each shard computes all of them that differ between shards, or none.
  void place(plan::DeviceKind device, bool per_shard) {
    device_ = device;
    per_shard_ = per_shard ? PerShard::kAlways : PerShard::kNever;
  }
  /// From now on nodes are per shard in these cases.
  void compute_per_shard(PerShard which) { per_shard_ = which; }

  /// An input of the job, or a variable. Reports a shape that is too large and returns an invalid
  /// id then.
  ValueId add_input(std::string name, DType dtype, Shape shape, int batch_axis, Span span);
  ValueId add_variable(std::string name, DType dtype, Shape shape, plan::Initializer initializer,
                       bool trainable, bool slot, Span span);

  /// A slot of an optimizer, like a variable or another value.
  ValueId add_slot(std::string name, const Value& like, Shape shape,
                   plan::Initializer initializer = {}) {
    return add_variable(std::move(name), like.dtype, std::move(shape), std::move(initializer),
                        false, true, like.span);
  }
  /// The state of a loop, which is like `of`. Its name is the compiler's.
  ValueId add_state(std::string name, ValueId of);

  /// Adds a primitive; `attributes` lacks what is defaulted. The first result is called `name`,
  /// others `name.port`. Where an operand is invalid (its error was reported before) or the shape
  /// rule fails, reports at most that and returns invalid ids, one for each result.
  std::vector<ValueId> add(const ops::OpSpec& op, std::string name, std::vector<ValueId> operands,
                           Attributes attributes, const AttributeSpans& spans);

  /// The same for passes and rules, which know that it fits; blames `span`. First result; invalid
  /// where an operand is, or where a tensor is too large to count.
  ValueId add(std::string_view op, std::string name, std::vector<ValueId> operands,
              Attributes attributes, Span span);

  /// Expands a layer: fills in its attributes, checks its operands, adds its variables and
  /// primitives, and the alias by which the entry stands for the last of them. Returns that value;
  /// invalid as above. `call.attributes` lacks what is defaulted; optional operands that are left
  /// out before others are invalid.
  ValueId add_layer(const ops::OpSpec& layer, LayerContext call);

  /// The entry `name` stands for `value`. A name that it has already, or an invalid value, adds
  /// nothing.
  void alias(std::string name, ValueId value);

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  Diags& diags() { return diags_; }

 private:
  std::string unique(std::string name) const;
  bool are_swapped(const ops::OpSpec& op, const CallSite& site) const;
  /// `place`: gives the record of operand i, of that dtype.
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
