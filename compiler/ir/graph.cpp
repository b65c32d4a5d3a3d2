// Implements look-ups in a graph, the replacement of its nodes, its text form, and the checks that
// every graph must pass.
#include "compiler/ir/graph.h"

#include <fmt/format.h>

#include <set>

#include "compiler/ir/call_site.h"
#include "ops/core/attributes.h"
#include "ops/core/check.h"
#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/fields.h"
#include "runtime/plan/model/named_values.h"

namespace flow::ir {
namespace {

std::string attributes_text(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes)
    text += fmt::format(" {}={}", name, ops::text_of(value));
  return text;
}

std::string type_text(const Value& value) {
  std::string text = fmt::format("{}{}", name_of(value.dtype), value.shape.str());
  if (value.batch_axis == kBatchReduced) text += " mixed";
  if (value.batch_axis >= 0) text += fmt::format(" rows={}", value.batch_axis);
  return text;
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string text() {
    if (has_shards()) line("shards {}", graph_.shards);
    for (const ValueId input : graph_.inputs)
      line("input {}: {}", graph_[input].name, type_text(graph_[input]));
    for (const Variable& variable : graph_.variables) print(variable);
    if (graph_.loop) print(*graph_.loop);
    for (const Node& node : graph_.nodes) print(node);
    for (const Alias& alias : graph_.aliases)
      line("alias {} = {}", alias.name, graph_[alias.value].name);
    if (!graph_.results.empty()) line("results {}", names(graph_.results));
    if (!graph_.watched.empty()) line("watched {}", names(graph_.watched));
    return std::move(text_);
  }

 private:
  bool has_shards() const { return graph_.shards > 1; }

  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  std::string names(const std::vector<ValueId>& values) const {
    std::vector<std::string> names;
    for (const ValueId value : values) names.push_back(graph_[value].name);
    return join(names, ", ");
  }

  std::string elsewhere(plan::DeviceKind device) const {
    if (device == graph_.device) return {};
    return device == plan::DeviceKind::kGpu ? " on gpu" : " on cpu";
  }

  std::string combine_text(const Value& value) const {
    return has_shards() && value.combine
               ? fmt::format(" combine={}", plan::enum_name(*value.combine))
               : "";
  }

  void print(const Variable& variable) {
    const Value& value = graph_[variable.value];
    const std::string_view kind = variable.slot ? "slot" : "variable";
    line("{} {}: {} = {}{}{}{}{}", kind, value.name, type_text(value),
         plan::text_of(plan::named_values(variable.initializer)),
         variable.trainable || variable.slot ? "" : ", not trained",
         variable.stored ? fmt::format(", kept in {}", name_of(*variable.stored)) : "",
         variable.updated.valid() ? ", then " + graph_[variable.updated].name : "",
         elsewhere(value.device));
  }

  void print(const Loop& loop) {
    line("loop {}{}", loop.passes, loop.until.valid() ? " until " + graph_[loop.until].name : "");
    for (const State& state : loop.states)
      line("state {}: {} = {}, then {}", graph_[state.value].name, type_text(graph_[state.value]),
           graph_[state.first].name, graph_[state.updated].name);
  }

  static std::string_view part_text(LoopPart part) {
    constexpr std::string_view kTexts[] = {"", "pass ", "after "};
    return kTexts[static_cast<size_t>(part)];
  }

  void print(const Node& node) {
    std::vector<std::string> types;
    for (const ValueId result : node.results)
      types.push_back(type_text(graph_[result]) + combine_text(graph_[result]));
    line("{}{}{}{}{} = {}({}){}: {}{}", part_text(node.loop_part), node.probe ? "tap " : "",
         node.once ? "once " : "", node.per_shard ? "per shard " : "", names(node.results),
         node.op->name, names(node.operands), attributes_text(node.attributes), join(types, ", "),
         elsewhere(node.device));
    for (const EpilogueOp& fused : node.epilogue)
      line("  + {}({}){}", fused.op->name, names(fused.operands),
           attributes_text(fused.attributes));
  }

  const Graph& graph_;
  std::string text_;
};

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

  /// Checks that the value exists before the reader. A probe may read an intermediate value of a
  /// fused node, because the lowering computes it again.
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

  /// Checks that the results agree with the shape rule of the op. The batch axis is not checked if
  /// the node is per shard, because the shape rule does not determine it then.
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
  std::vector<bool> known_;  // indexed by ValueId: an earlier node makes the value
  std::vector<bool> whole_;  // indexed by ValueId: a node that runs once makes the value
  std::set<ValueId> replaced_;
};

}  // namespace

void Graph::set_nodes(std::vector<Node> replaced) {
  for (Value& value : values) value.producer = NodeId();
  nodes = std::move(replaced);
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const ValueId result : nodes[i].results) (*this)[result].producer = NodeId(i);
}

void Graph::move_last(const std::vector<size_t>& before) {
  const size_t old = nodes.size() - before.size();
  std::vector<std::vector<size_t>> moved(old + 1);
  for (size_t i = 0; i < before.size(); ++i) moved[before[i]].push_back(old + i);
  std::vector<Node> placed;
  for (size_t i = 0; i <= old; ++i) {
    for (const size_t node : moved[i]) {
      nodes[node].once |= i < old ? nodes[i].once : !placed.empty() && placed.back().once;
      placed.push_back(std::move(nodes[node]));
    }
    if (i < old) placed.push_back(std::move(nodes[i]));
  }
  set_nodes(std::move(placed));
}

ValueId Graph::find(std::string_view name) const {
  for (; index_.values < values.size(); ++index_.values)
    index_.by_name.emplace(values[index_.values].name, ValueId(index_.values));
  for (; index_.aliases < aliases.size(); ++index_.aliases)
    index_.by_name.emplace(aliases[index_.aliases].name, aliases[index_.aliases].value);
  const auto found = index_.by_name.find(std::string(name));
  return found == index_.by_name.end() ? ValueId() : found->second;
}

ValueId Graph::gradient_of(ValueId value) const {
  for (; index_.gradients < gradients.size(); ++index_.gradients) {
    const auto& [of, gradient] = gradients[index_.gradients];
    index_.gradient_of.emplace(of.value, gradient);
  }
  const auto found = index_.gradient_of.find(value.value);
  return found == index_.gradient_of.end() ? ValueId() : found->second;
}

const Variable* Graph::variable_of(ValueId value) const {
  for (; index_.variables < variables.size(); ++index_.variables)
    index_.variable_of.emplace(variables[index_.variables].value.value, index_.variables);
  const auto found = index_.variable_of.find(value.value);
  return found == index_.variable_of.end() ? nullptr : &variables[found->second];
}

bool Graph::is_own(ValueId value) const {
  const Node* producer = producer_of(value);
  const Value& made = (*this)[value];
  return producer && producer->per_shard && made.batch_axis == kBatchReduced && !made.combine;
}

Shape Graph::shape_of_shard(ValueId value) const {
  const int axis = (*this)[value].batch_axis;
  Shape shape = (*this)[value].shape;
  if (axis >= 0 && !cut) shape[axis] /= shards;
  return shape;
}

void Graph::set_updated(ValueId variable, ValueId updated) {
  variables[static_cast<size_t>(variable_of(variable) - variables.data())].updated = updated;
}

std::string print(const Graph& graph) { return Printer(graph).text(); }

void verify(const Graph& graph) { Verifier(graph).verify(); }

}  // namespace flow::ir
