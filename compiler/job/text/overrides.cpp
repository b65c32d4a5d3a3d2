// Applies overrides. Each has a path of keys and list positions, and an action at the end of the
// path.
#include "compiler/job/text/merge.h"

#include <fmt/format.h>

#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "compiler/yaml/parse.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

/// Returns the table entry of the value at the path, or null.
const KeyDef* definition_at(const std::vector<std::string>& path) {
  static const KeyDef kFile{
      .name = "", .type = KeyType::kSection, .fallback = "", .doc = "", .section = &kFileSection};
  const KeyDef* at = &kFile;
  for (const std::string& key : path) {
    if (at->type == KeyType::kFree || at->type == KeyType::kNested) return at;
    if (at->type != KeyType::kSection) return nullptr;
    at = find_key(*at->section, key);
    if (!at) return nullptr;
  }
  return at;
}

/// Returns true if the user chooses the keys of the mapping at this path. A plain override must not
/// add such keys, because a misspelled key would then go unnoticed. All other keys are checked when
/// they are read.
bool named_by_user(const std::vector<std::string>& path) {
  const KeyDef* at = definition_at(path);
  return at && (at->type == KeyType::kFree || at->type == KeyType::kNested ||
                (at->type == KeyType::kSection && at->section->each));
}

/// Returns true for lists to which `+` can add a first item.
bool is_list_key(const std::vector<std::string>& path) {
  const KeyDef* at = definition_at(path);
  return at && (at->type == KeyType::kHooks || at->type == KeyType::kAugment ||
                at->type == KeyType::kSections);
}

class Override {
 public:
  Override(Reader& reader, yaml::Node& file, const std::string& text)
      : reader_(reader), file_(file), text_(text) {
    source_ = reader.sources.add_words("--set " + text, text);
  }

  void apply() {
    const bool adds = text_.starts_with("+"), deletes = text_.starts_with("~");
    const size_t begin = adds || deletes ? 1 : 0;
    const size_t equals = deletes ? text_.size() : text_.find('=');
    if (equals == std::string::npos || equals == begin) {
      reader_
          .error(Diagnosis::kBadOverride, span(0, text_.size()),
                 equals == begin ? "missing path" : "missing `=`")
          .with_hint("write PATH=YAML, as in `vars.lr=0.02`, `+PATH=YAML` or `~PATH`");
      return;
    }
    if (!split_path(begin, equals)) return;
    if (path_[0] == "include") {
      reader_
          .error(Diagnosis::kBadOverride, span_of(0),
                 "cannot override `include`: files are included before overrides apply")
          .with_hint("set the keys themselves, or include another file in the job file");
      return;
    }
    if (deletes) return remove();
    // No top-level key of a file is this short.
    if (equals < 3 && !child(file_, 0)) return no_such(file_, 0);
    const std::string given = trimmed(std::string_view(text_).substr(equals + 1));
    if (given.empty() || given == "~" || given == "null") {
      reader_.error(Diagnosis::kBadOverride, span(equals, equals + 1), "missing value after `=`")
          .with_hint("write `\"\"` for an empty string, or `~PATH` to delete");
      return;
    }
    const size_t before = reader_.diags.error_count();
    yaml::Node value = parse(equals + 1);
    if (reader_.diags.error_count() > before) return;
    if (adds)
      add(std::move(value));
    else
      set(std::move(value));
  }

 private:
  Span span(size_t begin, size_t end) const {
    return {source_, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  }
  Span span_of(size_t part) const {
    return span(starts_[part], starts_[part] + path_[part].size());
  }
  std::vector<std::string> head(size_t parts) const {
    return {path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(parts)};
  }

  bool split_path(size_t begin, size_t end) {
    path_ = split(std::string_view(text_).substr(begin, end - begin), '.');
    for (const std::string& part : path_) {
      starts_.push_back(begin);
      if (part.empty()) {
        reader_.error(Diagnosis::kBadOverride, span(begin, begin), "empty part in the path");
        return false;
      }
      begin += part.size() + 1;
    }
    return true;
  }

  /// Parses the value in place. In a copy of the source, a document key replaces the path before
  /// the value, so that positions in the tree are positions in the override.
  yaml::Node parse(size_t begin) {
    std::string document = "v:" + std::string(begin - 2, ' ') + text_.substr(begin);
    Sources copies;
    for (int32_t i = 0; i < source_; ++i) copies.add({}, {});
    copies.add(reader_.sources[source_].name(), std::move(document));
    yaml::Node parsed = yaml::parse(copies, source_, reader_.diags);
    if (parsed.is_mapping() && parsed.entries.size() > 1)
      reader_
          .error(Diagnosis::kBadOverride, span(begin, text_.size()), "several values; expected one")
          .with_hint("use a separate --set for each");
    yaml::Node* value = parsed.is_mapping() ? parsed.find("v") : nullptr;
    return value ? std::move(*value) : yaml::Node{};
  }

  /// Returns the node at the first `parts` of the path, or null after an error. If `make` is set,
  /// makes missing mappings that the language defines.
  yaml::Node* walk(size_t parts, bool make) {
    yaml::Node* node = &file_;
    for (size_t i = 0; i < parts; ++i) {
      yaml::Node* next = child(*node, i);
      if (!next && node->is_mapping()) next = take_over(*node, i);
      if (!next && make && node->is_mapping() && !named_by_user(head(i))) {
        node->entries.push_back({path_[i], span_of(i),
                                 is_list_key(head(i + 1)) ? yaml::list_node({}, span_of(i))
                                                          : yaml::mapping_node({}, span_of(i))});
        next = &node->entries.back().value;
      }
      if (!next) {
        no_such(*node, i);
        return nullptr;
      }
      node = next;
    }
    return node;
  }

  /// Copies what the job inherits at this place from the job that it extends, so that it can be
  /// changed: a mapping becomes an empty one that is merged with the inherited mapping later, and a
  /// list becomes a copy that replaces it. Returns null if the job inherits nothing.
  yaml::Node* take_over(yaml::Node& node, size_t part) {
    const yaml::Node* found = inherited(file_, head(part + 1));
    if (!found) return nullptr;
    yaml::Node own = found->is_mapping() ? yaml::mapping_node({}, span_of(part)) : *found;
    node.entries.push_back({path_[part], span_of(part), std::move(own)});
    return &node.entries.back().value;
  }

  yaml::Node* child(yaml::Node& node, size_t part) const {
    if (node.is_mapping()) return node.find(path_[part]);
    const auto index = node.is_list() ? parse_integer(path_[part]) : std::nullopt;
    if (!index || *index < 0 || *index >= static_cast<int64_t>(node.items.size())) return nullptr;
    return &node.items[static_cast<size_t>(*index)];
  }

  void no_such(const yaml::Node& node, size_t part) {
    const std::string parent = part == 0 ? "the file" : "`" + join(head(part), ".") + "`";
    if (node.is_scalar()) {
      const std::string_view text = node.scalar;
      const bool variable = text.starts_with('$') && is_name(text.substr(1));
      const std::vector<std::string> rest(path_.begin() + static_cast<std::ptrdiff_t>(part),
                                          path_.end());
      reader_
          .error(Diagnosis::kOverridePath, span_of(part),
                 fmt::format("{} is the string `{}`; expected a mapping or list", parent, text))
          .with_hint(variable ? fmt::format("set `vars.{}.{}`", text.substr(1), join(rest, "."))
                              : "");
      return;
    }
    if (node.is_list()) {
      reader_
          .error(Diagnosis::kOverridePath, span_of(part),
                 fmt::format("unknown item `{}` of {}, which has {}, counted from 0", path_[part],
                             parent, counted(node.items.size(), "item")))
          .with_hint(fmt::format("write `+{}=...` to add one", join(head(part), ".")));
      return;
    }
    std::vector<std::string> keys;
    const auto add_keys = [&keys](const yaml::Node& mapping) {
      for (const yaml::Entry& entry : mapping.entries)
        if (!is_deletion(entry)) keys.push_back(entry.key);
    };
    add_keys(node);
    if (const yaml::Node* more = inherited(file_, head(part))) add_keys(*more);
    const yaml::Node* vars = part == 0 ? file_.find("vars") : nullptr;
    reader_
        .error(Diagnosis::kOverridePath, span_of(part),
               fmt::format("unknown key `{}` in {}", path_[part], parent))
        .with_hint(vars && vars->find(path_[0]) ? fmt::format("did you mean `vars.{}`?", path_[0])
                                                : suggestion(path_[part], keys, "available keys:"));
  }

  void set(yaml::Node value) {
    const size_t last = path_.size() - 1;
    yaml::Node* parent = walk(last, true);
    if (!parent) return;
    const bool mapping = value.is_mapping() && parent->is_mapping();
    const bool extended = parent->is_mapping() && inherited(file_, path_);
    if (yaml::Node* found = child(*parent, last)) {
      if (mapping) move_key(*parent->find_entry(path_[last]));
      *found = std::move(value);
    } else if (extended || (parent->is_mapping() && !named_by_user(head(last)))) {
      parent->entries.push_back({path_[last], span_of(last), std::move(value)});
    } else {
      return no_such(*parent, last);
    }
    // A mapping replaces the existing value, including an inherited one.
    if (mapping && extended) parent->entries.push_back(deletion_of(path_[last], span_of(last)));
  }

  /// Moves the position of the key to the override, where missing keys of the mapping are then
  /// reported. The entry keeps its place, so that entries below still read it.
  void move_key(yaml::Entry& entry) const {
    entry.place = entry.place.value_or(entry.key_span);
    entry.key_span = span_of(path_.size() - 1);
  }

  void add(yaml::Node value) {
    const size_t last = path_.size() - 1;
    yaml::Node* parent = walk(last, true);
    if (!parent) return;
    yaml::Node* found = child(*parent, last);
    const yaml::Node* there = found ? found : inherited(file_, path_);
    if (there && there->is_list()) {
      if (!found) found = take_over(*parent, last);
      found->items.push_back(std::move(value));
    } else if (found || (there && named_by_user(head(last)))) {
      reader_
          .error(Diagnosis::kOverridePath, span_of(last),
                 fmt::format("`{}` already exists", join(path_, ".")))
          .label(there->span, "defined here")
          .with_hint(fmt::format("remove `+` to replace it: --set {}", text_.substr(1)));
    } else if (!parent->is_mapping()) {
      no_such(*parent, last);
    } else {
      if (is_list_key(path_) && !value.is_list()) value = yaml::list_node({value}, value.span);
      parent->entries.push_back({path_[last], span_of(last), std::move(value)});
    }
  }

  void remove() {
    const size_t last = path_.size() - 1;
    yaml::Node* parent = walk(last, false);
    if (!parent) return;
    yaml::Node* found = child(*parent, last);
    const bool extended = parent->is_mapping() && inherited(file_, path_);
    if (!found && !extended) return no_such(*parent, last);
    if (parent->is_list())
      parent->items.erase(parent->items.begin() + (found - parent->items.data()));
    else
      parent->erase(path_[last]);
    if (extended) parent->entries.push_back(deletion_of(path_[last], span_of(last)));
  }

  Reader& reader_;
  yaml::Node& file_;
  const std::string& text_;
  int32_t source_ = -1;
  std::vector<std::string> path_;
  std::vector<size_t> starts_;  // the byte offset of each part
};

}  // namespace

void apply_overrides(Reader& reader, yaml::Node& file, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) Override(reader, file, set).apply();
}

}  // namespace flow::job
