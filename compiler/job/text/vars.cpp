// Variables in order of declaration, each substituted with those above it.
#include "compiler/job/text/vars.h"

#include <fmt/format.h>

#include <algorithm>

namespace flow::job {
namespace {

// Variables that hold others several times grow exponentially; a job file never needs this much.
constexpr size_t kMaxNodes = 1'000'000;

size_t size_of(const yaml::Node& node) {
  size_t size = 1 + node.scalar.size() / 64;
  for (const yaml::Node& item : node.items) size += size_of(item);
  for (const yaml::Entry& entry : node.entries) size += size_of(entry.value);
  return size;
}

/// Environment variables have upper-case names by convention.
bool is_environment_name(std::string_view name) {
  return std::ranges::none_of(name, [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

Variables::Variables(Reader& reader, yaml::Node& file) : reader_(reader) {
  const yaml::Node* seed = file.find("seed");
  seed_ = seed ? *seed : yaml::scalar_node("0");
  if (yaml::Node* vars = file.find("vars"))
    if (reader.expect(*vars, yaml::Kind::kMapping, "`vars`")) declare(*vars);
}

void Variables::declare(yaml::Node& vars) {
  for (const yaml::Entry& entry : vars.entries)
    if (!reader_.take_note(entry)) order_.push_back({entry.key, entry.key_span});
  for (yaml::Entry& entry : vars.entries) {
    if (entry.key == "note") continue;
    if (entry.key == "seed")
      reader_.error(Diagnosis::kNameTaken, entry.key_span,
                    "cannot declare `seed`: `$seed` is the seed of the file");
    else if (reader_.check_name({entry.key, entry.key_span}))
      substitute_declared(entry.value);
    // Declared in any case, so that its uses are not errors too.
    declared_[entry.key] = &entry.value;
  }
}

const yaml::Node* Variables::find(std::string_view name, Span span,
                                  std::vector<std::string> visible, bool whole) {
  used_.emplace(name);
  if (name == "seed") {
    if (!seed_read_) {
      seed_read_ = true;
      substitute(seed_);
    }
    return &seed_;
  }
  if (const auto found = declared_.find(name); found != declared_.end())
    return reader_.diags.is_silenced(found->second->span) ? nullptr : found->second;
  for (const Name& later : order_) {
    if (later.text != name) continue;
    reader_
        .error(Diagnosis::kVariableOrder, span,
               fmt::format("variable `{}` is used before its declaration", name))
        .label(later.span, "declared here")
        .with_hint("declare it above the variable that uses it");
    return nullptr;
  }
  if (name == "epoch" || name == "step") {
    reader_
        .error(Diagnosis::kUndeclaredVariable, span, fmt::format("undeclared variable `{}`", name))
        .with_hint(
            "use the epoch and step in the events of a hook: variables are fixed before the run");
    return nullptr;
  }
  for (const Name& other : order_) visible.push_back(other.text);
  reader_.error(Diagnosis::kUndeclaredVariable, span, fmt::format("undeclared variable `{}`", name))
      .with_hint(visible.empty() ? fmt::format("declare it: `vars: {{{}: ...}}`", name)
                                 : suggestion(name, visible, "available variables:"))
      .with_hint(name == "index" ? "use `$index` in the entry with `repeat`, and pass it to a "
                                   "network as a param: `number: $index`"
                                 : "")
      .with_hint(is_environment_name(name)
                     ? fmt::format("write `$env({})` to read the environment variable", name)
                     : "")
      .with_hint(name == "env" ? "write `$env(NAME)` to read the environment" : "")
      .with_hint(whole ? "" : "write `$$` for a dollar sign");
  return nullptr;
}

bool Variables::declares(std::string_view name) const {
  return name == "seed" || std::ranges::count(order_, name, &Name::text) > 0;
}

bool Variables::may_copy(const yaml::Node& copy, Span use) {
  if (too_many_) return false;
  nodes_ += size_of(copy);
  too_many_ = nodes_ > kMaxNodes;
  if (too_many_)
    reader_.error(
        Diagnosis::kOutOfRange, use,
        fmt::format("variables and copies expand the file to more than {} values", kMaxNodes));
  return !too_many_;
}

void Variables::warn_of_unused() const {
  for (const Name& name : order_)
    if (!used_.contains(name.text))
      reader_.diags.warning(Diagnosis::kUnusedDeclaration, name.span,
                            fmt::format("unused variable `{}`", name.text));
}

}  // namespace flow::job
