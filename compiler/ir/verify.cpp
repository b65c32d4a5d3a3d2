// What must hold of a graph between passes.
#include <set>

#include "compiler/ir/call_site.h"
#include "compiler/ir/graph.h"
#include "ops/core/check.h"
#include "ops/core/spec.h"
#include "runtime/base/check.h"

namespace flow::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), known_(graph.values.size()), whole_(graph.values.size()) {}

  void verify() {
    check_names();
    for (const ValueId input : graph_.inputs) begin(input, plan::Role::kInput);
    for (const Variable& variable : graph_.variables) begin(variable.value, plan::Role::kVariable);
    if (graph_.loop)
      for (const State& state : graph_.loop->states) begin(state.value, plan::Role::kVariable);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) check(graph_.nodes[i], NodeId(i));
    check_reads_from_outside();
  }

 private:
  void check_id(ValueId id) const {
    FLOW_CHECK(id.valid() && id.index() < graph_.values.size(), "value {}", id.value);
  }

  void check_names() const {
    std::set<std::string_view> names;
    for (const Value& value : graph_.values)
      FLOW_CHECK(!value.name.empty() && names.insert(value.name).second, "{}", value.name);
    for (const Alias& alias : graph_.aliases) {
      check_id(alias.value);
      FLOW_CHECK(names.insert(alias.name).second, "{}", alias.name);
    }
  }

  void begin(ValueId id, plan::Role role) {
    check_id(id);
    FLOW_CHECK(graph_[id].role == role && !graph_[id].producer.valid(), "{}", graph_[id].name);
    make(id);
  }

  void make(ValueId id) {
    FLOW_CHECK(!known_[id.index()], "{} is made twice", graph_[id].name);
    known_[id.index()] = true;
  }

  /// A probe may read what a fused node made on its way: the lowering makes it anew.
  void check_read(ValueId id, const Node& reader) const {
    check_id(id);
    FLOW_CHECK(known_[id.index()] || (reader.probe && replaced_.contains(id)),
               "{} reads {} before it is made", reader.name, graph_[id].name);
    FLOW_CHECK(reader.once || !whole_[id.index()], "{} of a shard reads {}, which is made once",
               reader.name, graph_[id].name);
  }

  void check(const Node& node, NodeId id) {
    FLOW_CHECK(node.op && node.op->infer && !node.results.empty(), "{}", node.name);
    for (const ValueId operand : node.operands) check_read(operand, node);
    std::vector<ValueId> made = node.results;
    if (!node.epilogue.empty()) made[0] = node.epilogue.front().replaced;
    check_inferred(*node.op, node.name, node.per_shard, node.operands, node.attributes, made);
    for (size_t i = 0; i < node.epilogue.size(); ++i) {
      const EpilogueOp& fused = node.epilogue[i];
      std::vector<ValueId> operands = {fused.replaced};
      for (const ValueId operand : fused.operands) {
        check_read(operand, node);
        operands.push_back(operand);
      }
      FLOW_CHECK(!graph_[fused.replaced].producer.valid(), "{}", graph_[fused.replaced].name);
      replaced_.insert(fused.replaced);
      const bool last = i + 1 == node.epilogue.size();
      const ValueId result = last ? node.results[0] : node.epilogue[i + 1].replaced;
      check_inferred(*fused.op, fused.name, node.per_shard, operands, fused.attributes, {result});
    }
    for (const ValueId result : node.results) {
      check_id(result);
      FLOW_CHECK(graph_[result].producer == id && graph_[result].role == plan::Role::kResult, "{}",
                 graph_[result].name);
      make(result);
      whole_[result.index()] = node.once;
    }
  }

  /// Rows of what is per shard lie where its maker says.
  void check_inferred(const ops::OpSpec& op, const std::string& name, bool per_shard,
                      const std::vector<ValueId>& operands, const Attributes& attributes,
                      const std::vector<ValueId>& results) {
    std::vector<Shape> shapes;
    for (const ValueId operand : operands) shapes.push_back(graph_.shape_of_shard(operand));
    ops::Call call = per_shard ? call_of_shard(graph_, operands, shapes, attributes)
                               : typed_call(graph_, operands, attributes);
    ops::check_attributes(op, call);
    if (!call.failed()) op.infer(call);
    FLOW_CHECK(!call.failed(), "{}: {}", name, call.refusals().front().text);
    FLOW_CHECK(call.results().size() == results.size(), "{}", name);
    for (size_t i = 0; i < results.size(); ++i) {
      const auto& [dtype, shape, batch_axis, combine] = call.results()[i];
      const Value& value = graph_[results[i]];
      const Shape made = per_shard ? graph_.shape_of_shard(results[i]) : value.shape;
      FLOW_CHECK(
          value.dtype == dtype && made == shape && (per_shard || value.batch_axis == batch_axis),
          "{} is {}, {} makes {}", value.name, made.str(), op.name, shape.str());
    }
  }

  void check_reads_from_outside() const {
    for (const ValueId result : graph_.results) {
      check_id(result);
      FLOW_CHECK(known_[result.index()], "the result {} is not made", graph_[result].name);
    }
    for (const ValueId watched : graph_.watched) check_id(watched);
    for (const Variable& variable : graph_.variables)
      FLOW_CHECK(!variable.updated.valid() || known_[variable.updated.index()], "{}",
                 graph_[variable.value].name);
  }

  const Graph& graph_;
  std::vector<bool> known_;  // by ValueId: made by what stands above
  std::vector<bool> whole_;  // by ValueId: made by a node that runs once
  std::set<ValueId> replaced_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).verify(); }

}  // namespace flow::ir
