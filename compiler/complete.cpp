// Completes paths by following the tree of the file and the tables of the language in parallel.
#include <algorithm>
#include <charconv>

#include "compiler/compile.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/merge.h"
#include "compiler/yaml/parse.h"
#include "compiler/yaml/tree.h"
#include "ops/core/spec.h"
#include "runtime/base/text.h"

namespace flow {
namespace {

using job::KeyDef;
using job::KeyType;

/// Returns the tree of the file, including the files that it includes and the jobs that it extends.
/// Ignores errors.
yaml::Node read_tree(const std::string& file, std::string text) {
  Sources sources;
  Diags ignored(sources);
  const int32_t source = sources.add(file, std::move(text));
  job::Reader reader(sources, ignored, source);
  yaml::Node tree = yaml::parse(sources, source, ignored);
  if (!tree.is_mapping()) return {};
  job::DefaultOutputs outputs;
  job::include_files(reader, tree, outputs);
  job::extend_jobs(reader, tree);
  job::finish_deletions(reader, tree);
  return tree;
}

std::string text_at(const yaml::Node* node, std::string_view key) {
  const yaml::Node* value = node ? node->find(key) : nullptr;
  return value && value->is_scalar() ? value->scalar : std::string();
}

/// A place in a path: the node of the file, and the key definition of the language. Either may be
/// null.
struct Place {
  const yaml::Node* node;
  const KeyDef* def;
};

std::vector<KeyDef> keys_of(const job::VariantKind& kind, const std::string& type) {
  std::vector<KeyDef> keys = kind.common;
  if (const job::Variant* variant = job::find_variant(kind, type))
    keys.insert(keys.end(), variant->keys.begin(), variant->keys.end());
  return keys;
}

/// Returns the keys of a graph entry, according to its op. No path continues below them.
std::vector<KeyDef> keys_of_entry(const yaml::Node* entry) {
  std::vector<KeyDef> keys = job::kCallKeys;
  const ops::OpSpec* op = ops::find_written_spec(text_at(entry, "op"));
  for (const KeyDef& key : job::training_keys(op)) keys.push_back(key);
  if (op)
    for (const ops::AttributeSpec& attribute : op->attributes)
      keys.push_back({attribute.name, KeyType::kFree, "none", attribute.doc});
  return keys;
}

/// Returns the keys that the language allows at a place.
std::vector<KeyDef> known_keys(const Place& place) {
  if (!place.def) return {};
  switch (place.def->type) {
    case KeyType::kSection:
      return place.def->section->keys;
    case KeyType::kVariant:
    case KeyType::kVariants:
    case KeyType::kSource:
      return keys_of(*place.def->variants, text_at(place.node, "type"));
    case KeyType::kEntry:
      return keys_of_entry(place.node);
    default:
      return {};
  }
}

/// Returns the definition of an item in a list of sections, variants or hooks, as if the item were
/// the value of a key.
std::vector<KeyDef> item_of(const Place& list, const yaml::Node& item) {
  if (!list.def) return {};
  KeyDef def = *list.def;
  def.type = KeyType::kSection;
  if (list.def->type == KeyType::kSections) return {def};
  if (list.def->type == KeyType::kVariants) {
    def.type = KeyType::kVariant;
    return {def};
  }
  for (const job::Section& kind : job::kinds_of(*list.def))
    if (item.find(kind.keys.front().name)) {
      def.section = &kind;
      return {def};
    }
  return {};
}

bool goes_on(const yaml::Node* node, const KeyDef* def) {
  if (node) return !node->is_scalar();
  return def && (def->type == KeyType::kSection || def->type == KeyType::kVariant);
}

class Walk {
 public:
  explicit Walk(const yaml::Node& tree)
      : file_{.name = "",
              .type = KeyType::kSection,
              .fallback = "",
              .doc = "",
              .section = &job::kFileSection},
        at_{&tree, &file_} {}

  /// Moves to the value at a key. Returns false if neither the file nor the language has this key.
  bool step(const std::string& key) {
    Place next{at_.node ? at_.node->find(key) : nullptr, nullptr};
    if (at_.node && at_.node->is_list()) {
      size_t index = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error != std::errc() || index >= at_.node->items.size()) return false;
      next.node = &at_.node->items[index];
      keep(item_of(at_, *next.node));
    } else if (at_.def && at_.def->type == KeyType::kSection && at_.def->section->each &&
               !job::find_key(at_.def->section->keys, key)) {
      if (!next.node) return false;  // a name that the file does not contain
      keep({*at_.def->section->each});
    } else {
      keep(known_keys(at_));
      std::erase_if(kept_.back(), [&](const KeyDef& def) { return def.name != key; });
    }
    if (!kept_.back().empty()) next.def = &kept_.back().front();
    at_ = next;
    return next.node || next.def;
  }

  /// Returns the possible continuations of the path.
  std::vector<std::string> continuations() {
    std::vector<std::string> found;
    const auto add = [&](const std::string& key, const yaml::Node* node, const KeyDef* def) {
      found.push_back(key + (goes_on(node, def) ? '.' : '='));
    };
    if (at_.node && at_.node->is_list())
      for (size_t i = 0; i < at_.node->items.size(); ++i)
        add(std::to_string(i), &at_.node->items[i], nullptr);
    std::vector<std::string> keys;
    if (at_.node)
      for (const yaml::Entry& entry : at_.node->entries) {
        keys.push_back(entry.key);
        add(entry.key, &entry.value, nullptr);
      }
    for (const KeyDef& def : known_keys(at_))
      if (std::ranges::count(keys, def.name) == 0 && def.name != "include")
        add(std::string(def.name), nullptr, &def);
    return found;
  }

 private:
  void keep(std::vector<KeyDef> keys) { kept_.push_back(std::move(keys)); }

  const KeyDef file_;
  std::vector<std::vector<KeyDef>> kept_;  // keeps the definitions alive that `at_` points to
  Place at_;
};

}  // namespace

std::vector<std::string> jobs_in(const std::string& file, std::string text) {
  std::vector<std::string> names;
  const yaml::Node tree = read_tree(file, std::move(text));
  if (const yaml::Node* jobs = tree.find("jobs"))
    for (const yaml::Entry& entry : jobs->entries) names.push_back(entry.key);
  return names;
}

std::vector<std::string> set_paths(const std::string& file, std::string text,
                                   std::string_view word) {
  const bool marked = word.starts_with('+') || word.starts_with('~');
  const size_t dot = word.rfind('.');
  const std::string_view head =
      dot == word.npos ? word.substr(0, marked ? 1 : 0) : word.substr(0, dot + 1);
  const yaml::Node tree = read_tree(file, std::move(text));
  Walk walk(tree);
  if (dot != word.npos)
    for (const std::string& key : split(word.substr(marked ? 1 : 0, dot - (marked ? 1 : 0)), '.'))
      if (!walk.step(key)) return {};
  std::vector<std::string> paths;
  for (const std::string& next : walk.continuations()) {
    std::string path = std::string(head) + next;
    if (!path.starts_with(word)) continue;
    if (word.starts_with('~') && path.ends_with('=')) path.pop_back();
    paths.push_back(std::move(path));
  }
  return paths;
}

}  // namespace flow
