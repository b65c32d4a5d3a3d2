// A graph as text: for `flowc build --dump-after`, and for tests to compare.
#include <fmt/format.h>

#include "compiler/ir/graph.h"
#include "ops/core/attribute_text.h"
#include "ops/core/spec.h"
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
    return has_shards() && value.combine ? fmt::format(" combine={}", plan::spelled(*value.combine))
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

}  // namespace

std::string print(const Graph& graph) { return Printer(graph).text(); }

}  // namespace flow::ir
