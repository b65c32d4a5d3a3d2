// Makes nodes of a YAML tree, finds them, and writes the tree as text.
#include "compiler/yaml/tree.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <utility>

namespace flow::yaml {
namespace {

constexpr size_t kWidth = 120;

/// Returns true if every YAML reader takes the text as the same string without quotes.
bool is_plain(std::string_view text) {
  const auto safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./$+*()-").find(c) != std::string_view::npos;
  };
  if (text.empty() || !std::ranges::all_of(text, safe)) return false;
  const bool starts_well = text[0] != '*' && (text[0] != '-' || text.size() > 1);
  return starts_well && text != "null" && text != "Null" && text != "NULL" && text != "---" &&
         text != "...";
}

void put_text(YAML::Emitter& out, const std::string& text) {
  if (!is_plain(text)) out << YAML::DoubleQuoted;
  out << text;
}

/// The place where a value begins: the indentation of its lines, and the number of columns that its
/// first line has already used.
struct Place {
  size_t indent = 0, used = 0;
};

void put(YAML::Emitter& out, const Node& node, Place place, bool flat);

bool fits(const Node& node, Place place) {
  YAML::Emitter out;
  put(out, node, place, true);
  return place.used + out.size() <= kWidth;
}

/// Writes a list or mapping. `flat` forces it onto one line, regardless of its length.
void put_collection(YAML::Emitter& out, const Node& node, Place place, bool flat) {
  const auto holds_mapping = [](const Entry& entry) { return entry.value.is_mapping(); };
  const bool mappings = node.is_list() ? std::ranges::all_of(node.items, &Node::is_mapping)
                                       : std::ranges::all_of(node.entries, holds_mapping);
  const bool empty = node.items.empty() && node.entries.empty();
  flat = flat || empty || (!mappings && fits(node, place));
  const size_t inside = place.indent + 2;
  out << (flat ? YAML::Flow : YAML::Block);
  out << (node.is_list() ? YAML::BeginSeq : YAML::BeginMap);
  for (const Node& item : node.items) put(out, item, {inside, inside}, flat);
  for (const Entry& entry : node.entries) {
    out << YAML::Key;
    put_text(out, entry.key);
    out << YAML::Value;
    put(out, entry.value, {inside, inside + entry.key.size()}, flat);
  }
  out << (node.is_list() ? YAML::EndSeq : YAML::EndMap);
}

void put(YAML::Emitter& out, const Node& node, Place place, bool flat) {
  if (node.is_scalar())
    put_text(out, node.scalar);
  else
    put_collection(out, node, place, flat);
}

}  // namespace

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
  constexpr std::string_view kNames[] = {"a string", "a list", "a mapping"};
  return kNames[static_cast<size_t>(kind)];
}

std::string write(const Node& mapping) {
  YAML::Emitter out;
  put(out, mapping, {}, false);
  return std::string(out.c_str(), out.size()) + "\n";
}

}  // namespace flow::yaml
