// The compiler's one representation of a job: values, nodes in execution order, and what of them
// is read from outside. Static shapes, typed ids, no stored users.
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

/// What a plan is for. `auto` placements become `device` of it; `gpu` and `cpu` stay what they are,
/// wherever the plan is made.
struct Target {
  plan::DeviceKind device = plan::DeviceKind::kCpu;
  bool forced = false;  // `--device cpu`: placements of the file give way
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

/// A tensor of the graph. Made by a node, or an input or variable of the job (`producer` invalid).
struct Value {
  std::string name;  // unique: "images", "lenet/conv1/weight", "lenet/conv1/conv"
  DType dtype = DType::kFloat32;
  Shape shape;
  int batch_axis = kNoBatch;
  NodeId producer;
  plan::Role role = plan::Role::kResult;
  Span span;                                         // where the user asked for it
  plan::DeviceKind device = plan::DeviceKind::kCpu;  // where it lies
  /// Of a value that is computed from several rows: what makes it of values that shards compute
  /// from their own rows. Nothing where these do not.
  std::optional<plan::Combine> combine = {};
};

/// An elementwise op fused onto a node's first result by a pass.
struct EpilogueOp {
  const ops::OpSpec* op = nullptr;
  std::string name;
  std::vector<ValueId> operands;  // beyond the running value
  ValueId replaced;               // the value that no longer exists: the operand it was fused onto
  Attributes attributes;
};

/// Of a job with a loop: when a node runs.
enum class LoopPart : uint8_t { kBefore, kPass, kAfter };

struct Node {
  const ops::OpSpec* op = nullptr;
  std::string name;  // unique, the user's: "lenet/conv1/conv"
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  Attributes attributes;  // all of the op's, defaults filled in
  std::vector<EpilogueOp> epilogue;
  bool probe = false;  // read by hooks alone: runs only when one of them fires
  Span span;           // the `op:` that asked for it; a gradient's is that of the forward op
  plan::DeviceKind device = plan::DeviceKind::kCpu;  // what runs it; its results lie there
  bool once = false;                                 // runs once, on what all shards made
  /// Each shard computes it from its own values alone, whatever other shards have. Attributes are
  /// those of a shard's shapes.
  bool per_shard = false;
  LoopPart loop_part = LoopPart::kBefore;
};

struct Variable {
  ValueId value;
  plan::Initializer initializer;
  bool trainable = true;
  bool slot = false;
  ValueId updated;        // its value after the step, or invalid
  double l1 = 0, l2 = 0;  // its regularizer: what is added to the gradient of the mean loss
  /// The `sparse:` that says that its gradient is one of rows.
  std::optional<Span> sparse = {};
  /// The 16-bit dtype that it is kept in where it is frozen, and the `variable_dtype:` that says
  /// so. Until the pass widen_variables its value has the float dtype of the job.
  std::optional<DType> stored = {};
  Span stored_at = {};
};

/// What a pass of a loop leaves to the next one: a value that steps before the loop set, and that
/// each pass computes anew.
struct State {
  std::string name;        // of the input or entry that is fed back
  ValueId value;           // what a pass reads
  ValueId first, updated;  // what is read in the first pass, and in the one that follows
};

/// Some nodes run in several passes.
struct Loop {
  int64_t passes = 1;
  std::vector<State> states;
  ValueId until;  // bool: all true after the last pass; invalid: there is always another pass

  const State* state_of(ValueId value) const {
    const auto found = std::ranges::find(states, value, &State::value);
    return found == states.end() ? nullptr : &*found;
  }
};

/// An entry as the user sees it: its name, and the value it stands for ("dense1" is the result
/// after the activation, made by the primitive "dense1/relu").
struct Alias {
  std::string name;
  ValueId value;
};

struct Graph {
  DType compute_dtype = DType::kFloat32;             // the float dtype that the job computes in
  int64_t shards = 1;                                // of a batch
  bool cut = false;                                  // shapes are those of one shard
  plan::DeviceKind device = plan::DeviceKind::kCpu;  // the job's, of all that is not placed apart
  std::vector<Value> values;
  std::vector<Node> nodes;  // in execution order
  std::vector<ValueId> inputs;
  ValueId row_numbers;  // an input that no file names, where a pass wants one: 0, 1, 2, ...
  std::vector<Variable> variables;
  std::optional<Loop> loop;
  std::vector<Alias> aliases;
  /// Values that must survive every pass: returned, minimized.
  std::vector<ValueId> results;
  /// Values that hooks read. They decide nothing: one that exists only inside a fused node is
  /// delivered by a probe, which the lowering adds.
  std::vector<ValueId> watched;
  /// (value, its gradient of the summed loss), filled by autodiff.
  std::vector<std::pair<ValueId, ValueId>> gradients;

  Value& operator[](ValueId id) { return values[id.index()]; }
  const Value& operator[](ValueId id) const { return values[id.index()]; }
  const Node& operator[](NodeId id) const { return nodes[id.index()]; }

  /// The node that makes the value; null for an input or a variable.
  const Node* producer_of(ValueId value) const {
    const NodeId producer = (*this)[value].producer;
    return producer.valid() ? &(*this)[producer] : nullptr;
  }

  /// Replaces the nodes; `producer` follows. Values that no node makes any more stay, without one.
  void set_nodes(std::vector<Node> replaced);
  /// Moves the last nodes up, the i-th of them before the node that is nodes[before[i]] now; those
  /// with one place keep their order, and run once where it does. REQUIRES: before[i] <=
  /// nodes.size() - before.size().
  void move_last(const std::vector<size_t>& before);

  /// The value, variable, input or entry of that name; invalid when there is none.
  ValueId find(std::string_view name) const;
  /// The gradient with respect to `value`; invalid when the loss does not depend on it.
  ValueId gradient_of(ValueId value) const;
  /// The variable whose value is `value`, or null.
  const Variable* variable_of(ValueId value) const;
  /// Does each shard have a value of its own, which nothing joins or combines? Its shape is that of
  /// one of them.
  bool is_own(ValueId value) const;
  /// What a shard sees of the value's shape.
  Shape shape_of_shard(ValueId value) const;
  /// What a variable holds after the call. REQUIRES: variable_of(variable).
  void set_updated(ValueId variable, ValueId updated);

 private:
  /// What the look-ups above have seen of the vectors, which only grow.
  struct Index {
    size_t values = 0, aliases = 0, gradients = 0, variables = 0;
    std::unordered_map<std::string, ValueId> by_name;
    std::unordered_map<int32_t, ValueId> gradient_of;
    std::unordered_map<int32_t, size_t> variable_of;
  };
  mutable Index index_;
};

/// One line a value and node, in order; equal graphs print equally.
std::string print(const Graph& graph);

/// FLOW_CHECKs that ids are in range, names unique, nodes in execution order, each result made
/// once, and that shapes, dtypes and rows are what the ops' shape rules say.
void verify(const Graph& graph);

}  // namespace ir
}  // namespace flow
