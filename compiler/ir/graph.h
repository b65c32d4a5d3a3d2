// Declares the only representation of a job in the compiler: values, nodes in execution order, and
// the values that are read from outside of the graph. Shapes are static, ids are typed, and the
// readers of a value are not stored.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/source/source.h"
#include "runtime/base/array.h"
#include "runtime/plan/model/plan.h"

namespace flow {

/// The device that a plan is made for. A placement `auto` becomes `device`; the placements `gpu`
/// and `cpu` stay unchanged.
struct Target {
  plan::DeviceKind device = plan::DeviceKind::kCpu;
  bool forced = false;  // `--device cpu` overrides the placements of the file
};

namespace ops {
struct OpSpec;
}

namespace ir {

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;
using plan::Attribute;
using plan::Attributes;
using plan::kBatchReduced;
using plan::kNoBatch;

/// A tensor of the graph. A node makes it, or it is an input or variable of the job (`producer` is
/// invalid).
struct Value {
  std::string name;  // unique, such as "images", "lenet/conv1/weight", "lenet/conv1/conv"
  DType dtype = DType::kFloat32;
  Shape shape;
  int batch_axis = kNoBatch;
  NodeId producer;
  plan::Role role = plan::Role::kResult;
  Span span;                                         // the place in the job file that it comes from
  plan::DeviceKind device = plan::DeviceKind::kCpu;  // the device that stores it
  /// For a value that is computed from several rows: how the values that shards compute from their
  /// rows are combined into it. Empty if they cannot be combined.
  std::optional<plan::Combine> combine = {};
};

/// An elementwise op that a pass has fused onto the first result of a node.
struct EpilogueOp {
  const ops::OpSpec* op = nullptr;
  std::string name;
  std::vector<ValueId> operands;  // the operands other than the fused value
  // The fused value, which the node no longer makes.
  ValueId replaced;
  Attributes attributes;
};

/// The part of a loop that a node belongs to. Used only in jobs with a loop.
enum class LoopPart : uint8_t { kBefore, kPass, kAfter };

struct Node {
  const ops::OpSpec* op = nullptr;
  std::string name;  // unique; derived from the entry: "lenet/conv1/conv"
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  Attributes attributes;  // all attributes of the op, including defaults
  std::vector<EpilogueOp> epilogue;
  bool probe = false;  // only hooks read its results; runs only if one of them fires
  Span span;           // the `op:` it comes from; for a gradient, that of the forward op
  plan::DeviceKind device = plan::DeviceKind::kCpu;  // runs the node and stores its results
  bool once = false;                                 // runs once, on the results of all shards
  /// Each shard computes the node from its separate values, independently of other shards. The
  /// attributes are those of a shard's shapes.
  bool per_shard = false;
  LoopPart loop_part = LoopPart::kBefore;
};

struct Variable {
  ValueId value;
  plan::Initializer initializer;
  bool trainable = true;
  bool slot = false;
  ValueId updated;  // the value after the step, or invalid
  // The factors of the regularizer, whose gradient is added to that of the mean loss.
  double l1 = 0, l2 = 0;
  /// The position of `sparse:`, if the variable has a gradient of rows.
  std::optional<Span> sparse = {};
  /// The 16-bit dtype in which a frozen variable is stored, and the position of its
  /// `variable_dtype:`. Until the pass widen_variables runs, the value has the float dtype of the
  /// job.
  std::optional<DType> stored = {};
  Span stored_at = {};
};

/// A value that one pass of a loop leaves to the next. Steps before the loop set it first, and each
/// pass computes it again.
struct State {
  std::string name;        // the input or entry that is fed back
  ValueId value;           // the value that a pass reads
  ValueId first, updated;  // values for the first pass and for the next one
};

/// A loop, in which some of the nodes run in several passes.
struct Loop {
  int64_t passes = 1;
  std::vector<State> states;
  // A bool tensor. The loop ends after a pass in which all of its elements are true. If invalid,
  // all passes run.
  ValueId until;

  const State* state_of(ValueId value) const {
    const auto found = std::ranges::find(states, value, &State::value);
    return found == states.end() ? nullptr : &*found;
  }
};

/// An entry as the user sees it: its name and its value. For example, "dense1" is the result after
/// the activation, which the primitive "dense1/relu" makes.
struct Alias {
  std::string name;
  ValueId value;
};

struct Graph {
  DType compute_dtype = DType::kFloat32;             // the float dtype of the job
  int64_t shards = 1;                                // the number of shards of a batch
  bool cut = false;                                  // whether shapes are those of one shard
  plan::DeviceKind device = plan::DeviceKind::kCpu;  // the job's device, unless a node has another
  std::vector<Value> values;
  std::vector<Node> nodes;  // in execution order
  std::vector<ValueId> inputs;
  // An input that no job file names: the row numbers 0, 1, 2, ... Invalid unless a pass needs it.
  ValueId row_numbers;
  std::vector<Variable> variables;
  std::optional<Loop> loop;
  std::vector<Alias> aliases;
  /// Values that no pass may remove: those that are returned or minimized.
  std::vector<ValueId> results;
  /// Values that hooks read. They influence no decision of the passes: if such a value exists only
  /// inside a fused node, a probe that the lowering adds computes it.
  std::vector<ValueId> watched;
  /// Pairs of a value and its gradient of the summed loss. The pass autodiff adds them.
  std::vector<std::pair<ValueId, ValueId>> gradients;

  Value& operator[](ValueId id) { return values[id.index()]; }
  const Value& operator[](ValueId id) const { return values[id.index()]; }
  const Node& operator[](NodeId id) const { return nodes[id.index()]; }

  /// Returns the node that makes the value, or null for an input or a variable.
  const Node* producer_of(ValueId value) const {
    const NodeId producer = (*this)[value].producer;
    return producer.valid() ? &(*this)[producer] : nullptr;
  }

  /// Replaces the nodes and updates the producers of all values. Values that no node makes any more
  /// stay in the graph without a producer.
  void set_nodes(std::vector<Node> replaced);
  /// Moves the last before.size() nodes up. The i-th of them is placed before the current
  /// nodes[before[i]]. Nodes with the same place keep their order. A moved node also runs once if
  /// the node at its place does. REQUIRES: before[i] <= nodes.size() - before.size().
  void move_last(const std::vector<size_t>& before);

  /// Returns the value, variable, input or entry with that name, or an invalid id if there is none.
  ValueId find(std::string_view name) const;
  /// Returns the gradient with respect to `value`, or an invalid id if the loss does not depend on
  /// it.
  ValueId gradient_of(ValueId value) const;
  /// Returns the variable whose value is `value`, or null.
  const Variable* variable_of(ValueId value) const;
  /// Returns true if each shard has a separate value that is neither joined nor combined with those
  /// of other shards. The shape is that of one of them.
  bool is_own(ValueId value) const;
  /// Returns the shape of the value in one shard.
  Shape shape_of_shard(ValueId value) const;
  /// Sets the value of a variable after the call. REQUIRES: variable_of(variable) is not null.
  void set_updated(ValueId variable, ValueId updated);

 private:
  /// An index for the look-ups above. The sizes count the elements that it already contains; the
  /// vectors only grow.
  struct Index {
    size_t values = 0, aliases = 0, gradients = 0, variables = 0;
    std::unordered_map<std::string, ValueId> by_name;
    std::unordered_map<int32_t, ValueId> gradient_of;
    std::unordered_map<int32_t, size_t> variable_of;
  };
  mutable Index index_;
};

/// Returns one line for each value and node, in order. Equal graphs have equal texts.
std::string print(const Graph& graph);

/// FLOW_CHECKs that ids are in range, names are unique, nodes are in execution order, each result
/// is made once, and shapes, dtypes and batch axes agree with the shape rules of the ops.
void verify(const Graph& graph);

}  // namespace ir
}  // namespace flow
