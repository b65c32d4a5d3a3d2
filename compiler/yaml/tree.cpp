// Nodes made, and looked up in a YAML tree.
#include "compiler/yaml/tree.h"

#include <algorithm>
#include <utility>

namespace flow::yaml {

const Entry* Node::find_entry(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &*found;
}

Entry* Node::find_entry(std::string_view key) {
  return const_cast<Entry*>(std::as_const(*this).find_entry(key));
}

const Node* Node::find(std::string_view key) const {
  const Entry* entry = find_entry(key);
  return entry ? &entry->value : nullptr;
}

Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

void Node::erase(std::string_view key) {
  std::erase_if(entries, [key](const Entry& entry) { return entry.key == key; });
}

Node scalar_node(std::string_view text, Span span) {
  Node node;
  node.span = span;
  node.scalar = text;
  return node;
}

Node list_node(std::vector<Node> items, Span span) {
  Node node;
  node.kind = Kind::kList;
  node.span = span;
  node.items = std::move(items);
  return node;
}

Node mapping_node(std::vector<Entry> entries, Span span) {
  Node node;
  node.kind = Kind::kMapping;
  node.span = span;
  node.entries = std::move(entries);
  return node;
}

Span place_in(const Node& node, std::string_view text, size_t begin, size_t end) {
  const size_t quotes = node.quoted ? 2 : 0;
  if (node.span.end - node.span.begin != text.size() + quotes) return node.span;
  const auto start = static_cast<uint32_t>(node.span.begin + quotes / 2);
  return {node.span.source, start + static_cast<uint32_t>(begin),
          start + static_cast<uint32_t>(std::min(end, text.size()))};
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kList:
      return "a list";
    case Kind::kMapping:
      return "a mapping";
    case Kind::kScalar:
      break;
  }
  return "a string";
}

}  // namespace flow::yaml
