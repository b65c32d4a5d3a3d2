// Keys of mappings, names, and errors that know where a value came from.
#include "compiler/job/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/base/text.h"

namespace flow::job {

void Origins::add(Span use, std::string variable, Span value) {
  by_use_[{use.source, use.begin}] = {std::move(variable), value};
}

void Origins::explain(Span use, Diag& diag) const {
  const auto found = by_use_.find({use.source, use.begin});
  if (found == by_use_.end()) return;
  diag.label(found->second.value, fmt::format("`{}` is set here", found->second.variable));
}

Diag& Reader::error(Diagnosis diagnosis, Span span, std::string message) {
  Diag& diag = diags.error(diagnosis, span, std::move(message));
  origins.explain(span, diag);
  return diag;
}

bool Reader::expect(const yaml::Node& node, yaml::Kind kind, std::string_view what) {
  if (node.kind == kind) return true;
  error(Diagnosis::kWrongKind, node,
        fmt::format("{} is {}, not {}", what, yaml::name_of(node.kind), yaml::name_of(kind)));
  return false;
}

bool Reader::check_name(const Name& name) {
  static constexpr std::array<std::string_view, 13> kReserved = {
      "note", "op", "in",   "repeat", "placement", "variables", "yes",
      "no",   "on", "true", "false",  "off",       "null"};
  if (!is_name(name.text)) {
    diags.error(Diagnosis::kBadName, name.span, fmt::format("`{}` is not a name", name.text))
        .with_hint("names begin with a letter or `_` and go on with letters, digits and `_`");
    return false;
  }
  if (std::ranges::find(kReserved, name.text) == kReserved.end()) return true;
  diags.error(Diagnosis::kReservedName, name.span,
              fmt::format("`{}` is reserved and cannot be a name", name.text));
  return false;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates,
                       std::string_view lead) {
  if (const auto near = suggest(word, candidates); !near.empty())
    return fmt::format("did you mean {}?", quoted_alternatives(near));
  if (candidates.empty()) return {};
  constexpr size_t kMost = 24;
  std::string list;
  for (size_t i = 0; i < std::min(candidates.size(), kMost); ++i) {
    const bool last = i + 1 == candidates.size();
    list += fmt::format("{}`{}`", i == 0 ? "" : last ? " and " : ", ", candidates[i]);
  }
  if (candidates.size() > kMost) list += fmt::format(" and {} more", candidates.size() - kMost);
  return fmt::format("{} {}", lead, list);
}

Fields::Fields(Reader& reader, const yaml::Node& node, Span owner, std::string what,
               const std::vector<std::string>& keys)
    : reader_(reader), node_(node), owner_(owner), what_(std::move(what)) {
  if (!reader.expect(node, yaml::Kind::kMapping, what_)) return;
  for (const yaml::Entry& entry : node.entries) {
    if (entry.key == "note") {
      if (reader.expect(entry.value, yaml::Kind::kScalar, "`note`"))
        reader.notes.push_back(entry.value.scalar);
    } else if (std::ranges::find(keys, entry.key) == keys.end()) {
      reader.diags
          .error(Diagnosis::kUnknownKey, entry.key_span,
                 fmt::format("{} has no key `{}`", what_, entry.key))
          .with_hint(suggestion(entry.key, keys, "its keys are"));
    }
  }
}

const yaml::Node* Fields::find(std::string_view key) const {
  return node_.is_mapping() ? node_.find(key) : nullptr;
}

const yaml::Node* Fields::require(std::string_view key) const {
  const yaml::Node* found = find(key);
  if (!found && node_.is_mapping())
    reader_.error(Diagnosis::kMissingKey, owner_, fmt::format("{} needs `{}`", what_, key));
  return found;
}

Span Fields::key_span(std::string_view key) const {
  if (node_.is_mapping())
    for (const yaml::Entry& entry : node_.entries)
      if (entry.key == key) return entry.key_span;
  return owner_;
}

}  // namespace flow::job
