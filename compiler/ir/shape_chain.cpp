// Where a tensor's shape comes from, in one line.
#include "compiler/ir/shape_chain.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/core/spec.h"

namespace flow {
namespace {

constexpr int kMaxLinks = 6;

class Chain {
 public:
  Chain(const ir::Graph& graph, const Sources& sources) : graph_(graph), sources_(sources) {}

  std::string text(ir::ValueId value) const {
    std::string text = fmt::format("{} is {}{}", entry_of(value), graph_[value].shape.str(),
                                   made_by(graph_[value]));
    for (int link = 1; (value = source_of(value)).valid(); ++link) {
      if (link == kMaxLinks) return text + " <- ...";
      text += fmt::format(" <- {} {}{}", entry_of(value), graph_[value].shape.str(),
                          line_of(graph_[value].span));
    }
    return text;
  }

 private:
  /// What the user calls the value: the entry of a layer rather than its last primitive.
  const std::string& entry_of(ir::ValueId value) const {
    const std::string& name = graph_[value].name;
    for (const ir::Alias& alias : graph_.aliases)
      if (alias.value == value && name.starts_with(alias.name + "/")) return alias.name;
    return name;
  }

  std::string line_of(Span span) const {
    if (!span.valid()) return {};
    return fmt::format(" (line {})", sources_[span.source].position(span.begin).line);
  }

  /// " <- max_pool2d 4 (line 8)"
  std::string made_by(const ir::Value& value) const {
    if (!value.producer.valid()) return line_of(value.span);
    const ir::Node& node = graph_[value.producer];
    std::string op(sources_.text(node.span));
    if (op.empty()) op = node.op->name;
    if (op == node.op->name) op += sizes_of(node);
    return fmt::format(" <- {}{}", op, line_of(node.span));
  }

  /// The sizes without which the call says little: " 4", " [2, 3]".
  std::string sizes_of(const ir::Node& node) const {
    for (const ops::AttributeSpec& def : node.op->attributes) {
      if (def.type != ops::AttributeType::kIntegers || !def.fallback.empty()) continue;
      const auto& sizes = node.attributes.get<std::vector<int64_t>>(def.name);
      const bool equal = std::ranges::adjacent_find(sizes, std::not_equal_to<>()) == sizes.end();
      if (equal && !sizes.empty() && !node.op->view) return fmt::format(" {}", sizes.front());
      return " " + Shape(sizes).str();
    }
    return {};
  }

  /// The first operand of the entry that `value` belongs to: primitives of one layer are one link.
  ir::ValueId source_of(ir::ValueId value) const {
    const Span entry = graph_[value].span;
    do {
      const ir::Node* producer = graph_.producer_of(value);
      if (!producer || producer->operands.empty()) return {};
      value = producer->operands.front();
    } while (entry.valid() && graph_[value].span == entry &&
             graph_[value].role == plan::Role::kResult);
    return value;
  }

  const ir::Graph& graph_;
  const Sources& sources_;
};

}  // namespace

std::string shape_chain(const ir::Graph& graph, const Sources& sources, ir::ValueId value) {
  return Chain(graph, sources).text(value);
}

}  // namespace flow
