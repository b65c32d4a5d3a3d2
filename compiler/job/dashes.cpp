// Mappings that are written as lists, a dash before each entry or before the first.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/sections.h"
#include "compiler/job/tables.h"

namespace flow::job {
namespace {

/// The entries of all items; nothing where those are no mappings or have a key in common.
std::vector<yaml::Entry> joined(const yaml::Node& list) {
  std::vector<yaml::Entry> entries;
  for (const yaml::Node& item : list.items) {
    if (!item.is_mapping()) return {};
    for (const yaml::Entry& entry : item.entries) {
      if (std::ranges::count(entries, entry.key, &yaml::Entry::key) > 0) return {};
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

class DashRemoval {
 public:
  explicit DashRemoval(Reader& reader) : reader_(reader) {}

  void visit(yaml::Node& node, const Section& section) {
    if (node.is_list()) join(node, section);
    if (!node.is_mapping()) return;
    for (yaml::Entry& entry : node.entries) {
      const KeyDef* key = section.each ? &*section.each : find_key(section.keys, entry.key);
      if (key && key->type == KeyType::kSection) visit(entry.value, *key->section);
    }
  }

 private:
  void join(yaml::Node& list, const Section& section) {
    const bool nameless = section.each && section.each->type == KeyType::kEntry && has_calls(list);
    std::vector<yaml::Entry> entries = nameless ? std::vector<yaml::Entry>() : joined(list);
    if (entries.empty() && !nameless) return;  // who reads it says what is wrong
    reader_
        .error(Diagnosis::kWrongKind, list,
               fmt::format("{} is a list, not a mapping", section.what))
        .with_hint(nameless ? "write each as `NAME: {op: ...}`, without a dash"
                            : "write its entries without dashes, in one column");
    list.kind = yaml::Kind::kMapping;
    list.entries = std::move(entries);
    list.items.clear();
  }

  Reader& reader_;
};

}  // namespace

void remove_dashes(Reader& reader, yaml::Node& file) {
  DashRemoval(reader).visit(file, file_section());
}

}  // namespace flow::job
