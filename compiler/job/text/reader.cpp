// Reads the keys of mappings and names, and reports errors that show the origin of a value.
#include "compiler/job/text/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "compiler/job/suggest/vocabulary.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

std::string quoted(std::string_view key) { return fmt::format("`{}`", key); }

/// Returns a hint for a word, number or list in place of a mapping with these keys.
std::string hint_for_mapping(const Sources& sources, const yaml::Node& node,
                             const std::vector<KeyDef>& keys) {
  const std::string_view text = sources.text(node.span);
  const auto with = [&](std::string_view key) {
    return fmt::format("write `{{{}: {}}}`", key, text);
  };
  if (text.starts_with('[') && find_key(keys, "value")) return with("value");
  if (const KeyDef* number = only_number(keys); number && parse_number(node.scalar))
    return with(number->name);
  if (const size_t dot = node.scalar.rfind('.'); dot != node.scalar.npos)
    if (const KeyDef* format = find_key(keys, std::string_view(node.scalar).substr(dot + 1)))
      return with(format->name);
  for (const std::string_view key : {"value", "type", "job"})
    if (find_key(keys, key) && is_name(node.scalar)) return with(key);
  return listed("valid keys:", names_of(keys));
}

bool is_list_of_mappings(const yaml::Node& node) {
  return !node.items.empty() && std::ranges::all_of(node.items, &yaml::Node::is_mapping);
}

class OwnerSearch {
 public:
  explicit OwnerSearch(std::string_view key) : key_(key) {}

  void look_into(const Section& section) { look_into(section, section.what); }

  std::vector<std::string> found() && { return std::move(found_); }

 private:
  void look_into(const Section& section, const std::string& name) {
    // `defaults` of a dataset has the keys of a column.
    if (&section == &kColumnDefaultsSection || !seen_.insert(&section).second) return;
    look_into(section.keys, name);
    if (section.each) look_behind(*section.each);
  }

  void look_into(const VariantKind& kind) {
    if (!seen_.insert(&kind).second) return;
    look_into(kind.common, fmt::format("`{}`", kind.key));
    std::vector<std::string> owners;
    for (const Variant& variant : kind.variants) {
      if (find_key(variant.keys, key_)) owners.emplace_back(variant.type);
      for (const KeyDef& key : variant.keys) look_behind(key);
    }
    if (!owners.empty())
      found_.push_back(
          listed(fmt::format("the {}{}", kind.noun, owners.size() > 1 ? "s" : ""), owners));
  }

  void look_into(const std::vector<KeyDef>& keys, const std::string& owner) {
    if (find_key(keys, key_)) found_.push_back(owner);
    for (const KeyDef& key : keys) look_behind(key);
  }

  void look_behind(const KeyDef& key) {
    if (key.section) look_into(*key.section);
    if (key.variants) look_into(*key.variants);
    for (const Section& kind : kinds_of(key))
      look_into(kind, fmt::format("a `{}` {}", kind.keys.front().name,
                                  key.type == KeyType::kHooks ? "hook" : "op"));
  }

  std::string_view key_;
  std::set<const void*> seen_;
  std::vector<std::string> found_;
};

/// Returns true if the span is inside the mapping as written, and not in a mapping that was merged
/// into it.
bool is_within(Span span, const yaml::Node& mapping) {
  return span.source == mapping.span.source && span.begin >= mapping.span.begin &&
         span.end <= mapping.span.end;
}

std::string reason_to_reserve(std::string_view word) {
  constexpr std::string_view kKeys[] = {"note", "op", "in", "repeat", "placement", "variables"};
  return std::ranges::count(kKeys, word) > 0
             ? fmt::format("`{}` is a key of job files", word)
             : fmt::format("some YAML readers take `{}` for a boolean or for nothing", word);
}

/// Returns a hint for an unknown word. `near` contains similar words.
std::string hint_for(std::string_view word, const std::vector<std::string>& near,
                     const std::vector<std::string>& candidates, std::string_view lead) {
  const auto known = [&](const std::string& text) {
    return std::ranges::count(candidates, text) > 0;
  };
  if (std::string hint = respelling_hint(word, known); !hint.empty()) return hint;
  if (const auto advice = advice_on(word, candidates); !advice.empty()) return std::string(advice);
  if (!near.empty()) return fmt::format("did you mean {}?", quoted_alternatives(near));
  return candidates.empty() || lead.empty() ? std::string() : listed(lead, candidates);
}

/// Returns a text such as "add `dtype`: dtype of the elements (`float32` or ...)".
std::string meaning_of(const KeyDef& def) {
  const auto words = def.type == KeyType::kDType ? dtype_names() : def.words;
  const std::string alternatives =
      quoted_alternatives(std::vector<std::string>(words.begin(), words.end()));
  return fmt::format("add `{}`: {}{}", def.name, def.doc,
                     words.empty() ? "" : fmt::format(" ({})", alternatives));
}

/// Returns the descriptions of the mappings that have this key, such as "`run`" or "a job".
std::vector<std::string> owners_of(std::string_view key) {
  OwnerSearch search(key);
  search.look_into(kFileSection);
  return std::move(search).found();
}

}  // namespace

void Origins::add(Span use, std::string variable, Span value) {
  by_use_[{use.source, use.begin}] = {std::move(variable), value};
}

void Origins::explain(Span use, Diag& diag) const {
  const auto found = by_use_.find({use.source, use.begin});
  if (found == by_use_.end()) return;
  diag.caused_by(found->second.value, found->second.variable);
}

Diag& Reader::error(Diagnosis diagnosis, Span span, std::string message) {
  Diag& diag = diags.error(diagnosis, span, std::move(message));
  origins.explain(span, diag);
  return diag;
}

Span changed_at(const yaml::Node& node) {
  // The nested values of a variable have positions in its declaration.
  if (node.resolved) return node.span;
  Span changed = node.span;
  for (const yaml::Entry& entry : node.entries)
    if (const Span span = changed_at(entry.value); span.valid() && !is_within(span, node))
      changed = span;
  return changed;
}

bool Reader::expect(const yaml::Node& node, yaml::Kind kind, std::string_view what,
                    std::string hint) {
  if (node.kind == kind) return true;
  const std::string_view wanted =
      kind == yaml::Kind::kScalar ? "a single value" : yaml::name_of(kind);
  const bool number = node.is_scalar() && parse_number(node.scalar);
  Diag& diag = error(Diagnosis::kWrongKind, node,
                     fmt::format("{} is {}; expected {}", what,
                                 number ? "a number" : yaml::name_of(node.kind), wanted));
  const bool dashed = !node.entries.empty() && node.entries.front().key.starts_with('-');
  if (kind == yaml::Kind::kList && dashed)
    diag.with_hint(fmt::format("write a space after the dash: `- {}: ...`",
                               node.entries.front().key.substr(1)));
  else if (kind == yaml::Kind::kList && node.is_scalar() && !node.scalar.empty())
    diag.with_hint(fmt::format("write `[{}]`", as_written(node)));
  else if (kind == yaml::Kind::kScalar && hint.empty() && node.entries.size() == 1 &&
           node.entries.front().value.is_scalar())
    diag.with_hint(fmt::format("write `{}`", as_written(node.entries.front().value)));
  else if (kind == yaml::Kind::kMapping && hint.empty() && is_list_of_mappings(node))
    diag.with_hint(kWithoutDashes);
  else
    diag.with_hint(std::move(hint));
  return false;
}

std::span<const std::string_view> reserved_names() {
  static constexpr std::array<std::string_view, 13> kAll = {
      "note", "op", "in",   "repeat", "placement", "variables", "yes",
      "no",   "on", "true", "false",  "off",       "null"};
  return kAll;
}

bool Reader::check_name(const Name& name) {
  if (!is_name(name.text)) {
    diags.error(Diagnosis::kBadName, name.span, fmt::format("invalid name `{}`", name.text))
        .with_hint("start a name with a letter or `_`, followed by letters, digits and `_`");
    return false;
  }
  if (std::ranges::count(reserved_names(), name.text) == 0) return true;
  diags.error(Diagnosis::kReservedName, name.span, fmt::format("reserved name `{}`", name.text))
      .with_hint(fmt::format("choose another name: {}", reason_to_reserve(name.text)));
  return false;
}

std::vector<std::reference_wrapper<const yaml::Entry>> Reader::entries(const yaml::Node& node,
                                                                       std::string_view what,
                                                                       std::string hint) {
  expect(node, yaml::Kind::kMapping, what, std::move(hint));
  std::vector<std::reference_wrapper<const yaml::Entry>> found;
  for (const yaml::Entry& entry : node.entries)
    if (!take_note(entry)) found.emplace_back(entry);
  return found;
}

bool Reader::take_note(const yaml::Entry& entry) {
  if (entry.key != "note") return false;
  if (expect(entry.value, yaml::Kind::kScalar, "`note`")) notes.push_back(entry.value.scalar);
  return true;
}

std::string as_written(const yaml::Node& scalar) {
  return scalar.quoted ? fmt::format("\"{}\"", scalar.scalar) : scalar.scalar;
}

std::string hint_for_item(const yaml::Node& node) {
  return node.entries.empty() ? std::string()
                              : fmt::format("write `[{{{}: ...}}]`", node.entries.front().key);
}

std::string listed(std::string_view lead, const std::vector<std::string>& words) {
  constexpr size_t kMost = 24;
  std::string list;
  for (size_t i = 0; i < std::min(words.size(), kMost); ++i) {
    const bool last = i + 1 == words.size();
    list += fmt::format("{}`{}`", i == 0 ? "" : last ? " and " : ", ", words[i]);
  }
  if (words.size() > kMost) list += fmt::format(" and {} more", words.size() - kMost);
  return fmt::format("{} {}", lead, list);
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates,
                       std::string_view lead) {
  return hint_for(word, meant_by(word, candidates), candidates, lead);
}

std::string MeantKeys::suggest(std::string_view word, const std::vector<std::string>& candidates,
                               std::string_view lead) {
  const std::vector<std::string> near = meant_by(word, candidates);
  if (!near.empty()) keys_.insert(near.front());
  return hint_for(word, near, candidates, lead);
}

Fields::Fields(Reader& reader, const yaml::Node& node, Span owner, std::string what,
               std::vector<KeyDef> keys)
    : reader_(reader), node_(node), owner_(owner), what_(std::move(what)), keys_(std::move(keys)) {
  if (!node.is_mapping()) {
    reader.expect(node, yaml::Kind::kMapping, what_, hint_for_mapping(reader.sources, node, keys_));
    return;
  }
  const std::vector<std::string> names = names_of(keys_);
  for (const yaml::Entry& entry : node.entries) {
    if (reader.take_note(entry) || find_key(keys_, entry.key)) continue;
    Diag& diag = reader.diags
                     .error(Diagnosis::kUnknownKey, entry.key_span,
                            fmt::format("unknown key `{}` in {}", entry.key, what_))
                     .with_hint(hint_for_unknown(entry.key, names));
    const yaml::Node* type = node.find("type");
    if (type && is_within(type->span, node) != is_within(entry.key_span, node))
      diag.label(type->span, "`type` is set here");
  }
}

std::string Fields::hint_for_unknown(const std::string& key,
                                     const std::vector<std::string>& known) {
  if (std::string near = meant_.suggest(key, known, {}); !near.empty()) return near;
  if (!reader_.is_job_file) return suggestion(key, known, "valid keys:");
  const std::vector<std::string> owners = owners_of(key);
  constexpr size_t kTelling = 4;  // a longer list of owners does not help the user
  if (owners.empty() || owners.size() > kTelling) return suggestion(key, known, "valid keys:");
  const std::span<const std::string> others(owners.data(), owners.size() - 1);
  return fmt::format("`{}` is a key of {}{}{}", key, fmt::join(others, ", of "),
                     others.empty() ? "" : " and of ", owners.back());
}

const yaml::Node* Fields::find(std::string_view key) const {
  return find_key(keys_, key) ? node_.find(key) : nullptr;
}

const yaml::Node* Fields::require(std::string_view key) const {
  const yaml::Node* found = find(key);
  if (!found && node_.is_mapping() && !meant_.contains(key))
    reader_.error(Diagnosis::kMissingKey, owner_, fmt::format("{} requires `{}`", what_, key))
        .with_hint(meaning_of(definition(key)));
  return found;
}

Span Fields::key_span(std::string_view key) const {
  const yaml::Entry* entry = node_.find_entry(key);
  return entry ? entry->key_span : owner_;
}

const KeyDef& Fields::definition(std::string_view key) const {
  const KeyDef* found = find_key(keys_, key);
  FLOW_CHECK(found, "{} has no key {}", what_, key);
  return *found;
}

const yaml::Node* Fields::given(const KeyDef& def) const {
  return def.required() ? require(def.name) : find(def.name);
}

std::optional<int64_t> Fields::integer(std::string_view key) const {
  const KeyDef& def = definition(key);
  if (const yaml::Node* node = given(def))
    if (const auto value = read_integer(reader_, *node, quoted(key), def.bounds)) return value;
  return def.has_default() ? parse_integer(def.fallback) : std::nullopt;
}

std::optional<double> Fields::number(std::string_view key) const {
  const KeyDef& def = definition(key);
  if (const yaml::Node* node = given(def))
    if (const auto value = read_number(reader_, *node, quoted(key), def.bounds)) return value;
  return def.has_default() ? parse_number(def.fallback) : std::nullopt;
}

std::optional<std::string> Fields::text(std::string_view key) const {
  const KeyDef& def = definition(key);
  if (const yaml::Node* node = given(def))
    if (auto value = read_text(reader_, *node, quoted(key))) return value;
  return def.has_default() ? std::optional<std::string>(def.fallback) : std::nullopt;
}

std::optional<std::string> Fields::word(std::string_view key) const {
  const KeyDef& def = definition(key);
  if (const yaml::Node* node = given(def))
    if (auto value = read_choice(reader_, *node, quoted(key), def.words)) return value;
  return def.has_default() ? std::optional<std::string>(def.fallback) : std::nullopt;
}

std::optional<bool> Fields::flag(std::string_view key) const {
  const KeyDef& def = definition(key);
  if (const yaml::Node* node = given(def))
    if (const auto value = read_bool(reader_, *node, quoted(key))) return value;
  return def.has_default() ? std::optional<bool>(def.fallback == "true") : std::nullopt;
}

}  // namespace flow::job
