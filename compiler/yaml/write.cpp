// YAML's own emitter, and where it breaks lines.
#include "compiler/yaml/write.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

namespace flow::yaml {
namespace {

constexpr size_t kWidth = 120;

/// Text that every reader takes for itself, without quotes.
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

/// Where a value begins: how far its lines are indented, and how long its first one is already.
struct Place {
  size_t indent = 0, used = 0;
};

void put(YAML::Emitter& out, const Node& node, Place place, bool flat);

bool fits(const Node& node, Place place) {
  YAML::Emitter out;
  put(out, node, place, true);
  return place.used + out.size() <= kWidth;
}

/// `flat`: on one line, whatever it takes.
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

std::string write(const Node& mapping) {
  YAML::Emitter out;
  put(out, mapping, {}, false);
  return std::string(out.c_str(), out.size()) + "\n";
}

}  // namespace flow::yaml
