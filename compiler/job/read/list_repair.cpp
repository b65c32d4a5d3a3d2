// Mappings that are written as lists, a dash before each entry or before the first.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/job/read/sections.h"
#include "compiler/job/tables/tables.h"

namespace flow::job {
namespace {

/// The entries of all items; nothing where those are no mappings or have a key in common.
std::vector<yaml::Entry> joined(const yaml::Node& list) {
  std::vector<yaml::Entry> entries;
  std::set<std::string_view> keys;
  for (const yaml::Node& item : list.items) {
    if (!item.is_mapping()) return {};
    for (const yaml::Entry& entry : item.entries) {
      if (!keys.insert(entry.key).second) return {};
      entries.push_back(entry);
    }
  }
  return entries;
}

/// Are there items that call an op and name no result?
bool has_calls(const yaml::Node& list) {
  return std::ranges::any_of(list.items, [](const yaml::Node& item) {
    return item.is_mapping() && item.find("op") != nullptr;
  });
}

void join_items(Reader& reader, yaml::Node& list, const Section& section) {
  const bool nameless = section.each && section.each->type == KeyType::kEntry && has_calls(list);
  std::vector<yaml::Entry> entries = nameless ? std::vector<yaml::Entry>() : joined(list);
  if (entries.empty() && !nameless) return;  // its reader reports the error
  reader
      .error(Diagnosis::kWrongKind, list,
             fmt::format("{} is a list; expected a mapping", section.what))
      .with_hint(nameless ? "write each entry as `NAME: {op: ...}`, without a dash"
                          : kWithoutDashes);
  list = yaml::mapping_node(std::move(entries), list.span);
}

void remove_dashes_in(Reader& reader, yaml::Node& node, const Section& section) {
  if (node.is_list()) join_items(reader, node, section);
  if (!node.is_mapping()) return;
  for (yaml::Entry& entry : node.entries) {
    const KeyDef* key = section.each ? &*section.each : find_key(section.keys, entry.key);
    if (key && key->type == KeyType::kSection) remove_dashes_in(reader, entry.value, *key->section);
  }
}

}  // namespace

void remove_dashes(Reader& reader, yaml::Node& file) {
  remove_dashes_in(reader, file, file_section());
}

}  // namespace flow::job
