// Deletions first, so that a file may delete a mapping and write its own in the same place.
#include "compiler/job/text/merge.h"

#include <fmt/format.h>

namespace flow::job {
namespace {

/// A deletion that found its key has a value that no file holds.
bool is_done(const yaml::Entry& deletion) { return !deletion.value.span.valid(); }

bool deletes(const yaml::Entry& entry) {
  return is_deletion(entry) && entry.value.is_scalar() && entry.value.scalar == "true";
}

/// `replaced`: another value takes the place.
void delete_key(yaml::Node& base, yaml::Entry deletion, bool replaced) {
  const std::string key = deletion.key.substr(1);
  if (yaml::Node* found = base.find(key)) {
    deletion.value = yaml::scalar_node("true");
    if (replaced)
      *found = {};  // with which nothing is merged
    else
      base.erase(key);
  }
  base.erase(deletion.key);
  base.entries.push_back(std::move(deletion));
}

void report(Reader& reader, const yaml::Node& mapping, const yaml::Entry& deletion) {
  const std::string key = deletion.key.substr(1);
  if (!deletes(deletion)) {
    reader
        .error(Diagnosis::kBadDeletion, deletion.value,
               fmt::format("`{}` is {}; expected `true`", deletion.key,
                           deletion.value.is_scalar() ? fmt::format("`{}`", deletion.value.scalar)
                                                      : yaml::name_of(deletion.value.kind)))
        .with_hint("write `true` to delete the key, or remove the line to keep it");
    return;
  }
  std::vector<std::string> keys;
  for (const yaml::Entry& entry : mapping.entries)
    if (!is_deletion(entry) && entry.key != key) keys.push_back(entry.key);
  reader
      .error(Diagnosis::kBadDeletion, deletion.key_span,
             fmt::format(
                 "`{}` deletes nothing; expected `{}` here in an included file or extended job",
                 deletion.key, key))
      .with_hint(suggestion(key, keys));
}

}  // namespace

void merge(yaml::Node& base, yaml::Node over) {
  if (!base.is_mapping() || !over.is_mapping()) {
    base = std::move(over);
    return;
  }
  for (const yaml::Entry& entry : over.entries)
    if (deletes(entry)) delete_key(base, entry, over.find(entry.key.substr(1)));
  for (yaml::Entry& entry : over.entries) {
    if (deletes(entry)) continue;
    yaml::Entry* below = base.find_entry(entry.key);
    if (!below) {
      base.entries.push_back(std::move(entry));
      continue;
    }
    below->key_span = entry.key_span;
    merge(below->value, std::move(entry.value));
  }
}

yaml::Entry deletion_of(const std::string& key, Span span) {
  return {"~" + key, span, yaml::scalar_node("true", span)};
}

void finish_deletions(Reader& reader, yaml::Node& node) {
  for (yaml::Node& item : node.items) finish_deletions(reader, item);
  for (yaml::Entry& entry : node.entries) finish_deletions(reader, entry.value);
  for (const yaml::Entry& entry : node.entries)
    if (is_deletion(entry) && !is_done(entry)) report(reader, node, entry);
  std::erase_if(node.entries, is_deletion);
}

}  // namespace flow::job
