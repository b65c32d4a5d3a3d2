// Makes the schemas of keys, sections and variants.
#include "compiler/schema/forms.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"

namespace flow::schema {
namespace {

using job::KeyDef;
using job::KeyType;

/// Returns the name of a definition for "`checkpoint`", "a job" or "the learning rate".
std::string definition_name(std::string_view what) {
  std::string name(what);
  std::erase(name, '`');
  for (const std::string_view article : {"a ", "an ", "the "})
    if (name.starts_with(article)) name.erase(0, article.size());
  std::ranges::replace(name, ' ', '_');
  return name;
}

/// Returns a schema that rejects all keys that only train jobs have.
OrderedJson without_training(const job::Section& section) {
  OrderedJson properties = OrderedJson::object();
  for (const KeyDef& key : section.keys) {
    if (key.train_only)
      properties[std::string(key.name)] = false;
    else if (key.type == KeyType::kSection && key.section)
      if (OrderedJson inner = without_training(*key.section); !inner.empty())
        properties[std::string(key.name)] = std::move(inner);
  }
  if (properties.empty()) return OrderedJson::object();
  return {{"properties", std::move(properties)}};
}

OrderedJson steps() {
  return any_of({{{"type", "integer"}, {"minimum", 0}},
                 {{"type", "string"}, {"pattern", R"([$]|^\d+(\.\.\d*(/\d+)?)?$)"}}});
}

OrderedJson list_of_two(OrderedJson item) {
  return {{"type", "array"}, {"minItems", 2}, {"maxItems", 2}, {"items", std::move(item)}};
}

OrderedJson command() {
  return any_of({reference("text"),
                 {{"type", "array"},
                  {"minItems", 1},
                  {"prefixItems", OrderedJson::array({reference("text")})},
                  {"items", reference("scalar")}}});
}

/// Returns the schema of the names of variants.
OrderedJson types_of(const job::VariantKind& kind) {
  std::vector<OrderedJson> types;
  for (const job::Variant& one : kind.variants) {
    const std::string formula =
        one.formula.empty() ? std::string() : fmt::format("\n\n{}", one.formula);
    types.push_back(described({{"const", one.type}}, std::string(one.doc) + formula));
  }
  return or_variable(std::move(types));
}

}  // namespace

template <typename Make>
OrderedJson Tables::once(std::string name, Make make) {
  if (parts_) name = "part_of_" + name;
  if (!definitions_.contains(name)) {
    definitions_[name] = true;  // reserves the name during recursion
    definitions_[name] = make();
  }
  return reference(name);
}

OrderedJson Tables::value(const KeyDef& def) {
  const bool alone = def.type == KeyType::kSection || def.type == KeyType::kSections ||
                     def.type == KeyType::kSource;
  std::vector<OrderedJson> forms{form(def)};
  if (def.type != KeyType::kWord && !def.words.empty()) forms.push_back(words(def.words));
  if (!alone && def.section) forms.push_back(section(*def.section));
  return any_of(std::move(forms));
}

OrderedJson Tables::form(const KeyDef& def) {
  switch (def.type) {
    case KeyType::kText:
      return text(def.pattern);
    case KeyType::kAnyText:
      return reference("scalar");
    case KeyType::kWord:
      return or_variable({words(def.words)});
    case KeyType::kBool:
      return reference("boolean");
    case KeyType::kInteger:
      return integer(def.bounds);
    case KeyType::kNumber:
      return number(def.bounds);
    case KeyType::kNumbers:
      return list_of(number(def.bounds), true);
    case KeyType::kSides:
      return any_of({integer(def.bounds), list_of_two(integer(def.bounds))});
    case KeyType::kInterval:
      return list_of_two(number(def.bounds));
    case KeyType::kBoundaries:
    case KeyType::kIntegers:
      return list_of(integer(def.bounds), false);
    case KeyType::kShape:
      return reference("shape");
    case KeyType::kDType:
      return reference("dtype");
    case KeyType::kTexts:
      return list_of(reference("text"), false);
    case KeyType::kGlobs:
      return list_of(reference("text"), true, 1);
    case KeyType::kRanges:
    case KeyType::kDevices:
      return list_of(text(def.pattern), true, 1);
    case KeyType::kStepList:
      return list_of(steps(), true, 1);
    case KeyType::kCommand:
      return command();
    case KeyType::kVersion:
      return any_of({{{"const", 1}}, text("^1$")});
    case KeyType::kSection:
      return def.or_none ? any_of({section(*def.section), {{"const", "none"}}})
                         : section(*def.section);
    case KeyType::kSections:
      return list_of(section(*def.section), false);
    case KeyType::kVariant:
      return variants(*def.variants);
    case KeyType::kVariants:
      return list_of(variants(*def.variants), true, 1);
    case KeyType::kSource:
      return source(def);
    case KeyType::kHooks:
      return list_of(kinds("hook", job::kinds_of(def)), false);
    case KeyType::kAugment:
      return list_of(kinds("augment_op", job::kinds_of(def)), false);
    case KeyType::kEntry:
      return reference(parts_ ? "part_of_entry" : "entry");
    case KeyType::kNested:
      return reference("nested");
    case KeyType::kFree:
      return OrderedJson::object();
  }
  return {};
}

OrderedJson Tables::property(const KeyDef& def) {
  OrderedJson schema = described(value(def), def.doc);
  return def.has_default() ? with_default(std::move(schema), def.fallback) : schema;
}

OrderedJson Tables::section(const job::Section& section) {
  return once(definition_name(section.what), [&] {
    const bool may_extend = !parts_ && job::find_key(section.keys, "extends");
    return or_variable({section.each ? names(section)
                        : may_extend ? extensible(section)
                                     : keys(section)});
  });
}

/// Returns the schema of a mapping that may extend another one. If it does, it is only a part of a
/// mapping, but its type and the keys that the type requires must be present.
OrderedJson Tables::extensible(const job::Section& section) {
  OrderedJson whole = keys(section);
  parts_ = true;
  OrderedJson part = this->section(section), training = OrderedJson::array();
  parts_ = false;
  for (const KeyDef& key : section.keys)
    if (key.required() && key.train_only) training.push_back(key.name);
  return {{"type", "object"},
          {"if", {{"required", {"extends"}}}},
          {"then",
           {{"allOf", OrderedJson::array({part,
                                          {{"required", {"type"}}},
                                          where("type", "train", {{"required", training}})})}}},
          {"else", std::move(whole)}};
}

OrderedJson Tables::with_deletions(OrderedJson schema) const {
  if (parts_) schema["patternProperties"] = {{"^~", {{"enum", {true, "true"}}}}};
  return schema;
}

void Tables::relate(const std::vector<KeyDef>& keys, const std::vector<std::string_view>& one_of,
                    OrderedJson& schema) const {
  OrderedJson all = OrderedJson::array(), required = all, any = all;
  for (const KeyDef& key : keys) {
    for (const std::string_view other : key.unless)
      all.push_back({{"not", {{"required", {other, key.name}}}}});
    if (key.required() && !key.train_only) required.push_back(key.name);
    if (!key.with.empty() && !parts_)
      schema["dependentRequired"][std::string(key.name)] = {key.with};
  }
  for (const std::string_view key : one_of) any.push_back({{"required", {key}}});
  if (!any.empty() && !parts_) all.push_back({{"anyOf", std::move(any)}});
  if (!required.empty() && !parts_) schema["required"] = std::move(required);
  if (!all.empty()) schema["allOf"] = std::move(all);
}

OrderedJson Tables::keys(const job::Section& section) {
  OrderedJson properties = OrderedJson::object(), training = OrderedJson::array();
  for (const KeyDef& key : section.keys) {
    properties[std::string(key.name)] = property(key);
    if (key.required() && key.train_only) training.push_back(key.name);
  }
  OrderedJson made = with_deletions(mapping(std::move(properties), section.notes));
  relate(section.keys, section.one_of, made);
  if (training.empty()) return made;
  if (!parts_) made["allOf"].push_back(where("type", "train", {{"required", training}}));
  made["allOf"].push_back(where("type", "predict", without_training(section)));
  return made;
}

OrderedJson Tables::names(const job::Section& section) {
  OrderedJson made = {{"type", "object"}};
  const auto names = [&]() -> OrderedJson {
    switch (section.own_keys) {
      case job::OwnKeys::kNames:
        return reference(section.notes ? "name_or_note" : "name");
      case job::OwnKeys::kAnyNames:
        return reference("any_name");
      case job::OwnKeys::kGlobs:
        return {{"minLength", 1}};
    }
    return {};
  };
  made["propertyNames"] = parts_ ? any_of({names(), {{"pattern", "^~"}}}) : names();
  if (section.notes) made["properties"] = {{"note", reference("scalar")}};
  for (const KeyDef& key : section.keys) made["properties"][std::string(key.name)] = property(key);
  made["additionalProperties"] = property(*section.each);
  return with_deletions(std::move(made));
}

OrderedJson Tables::variant(const job::VariantKind& kind, const job::Variant& variant) {
  OrderedJson properties = {{"type", true}};
  const std::vector<KeyDef> all = keys_of(kind, &variant);
  for (const KeyDef& key : all)
    if (key.name != "type") properties[std::string(key.name)] = property(key);
  OrderedJson made = with_deletions(mapping(std::move(properties)));
  relate(all, {}, made);
  return made;
}

OrderedJson Tables::picked(const job::VariantKind& kind) {
  OrderedJson cases = OrderedJson::array();
  for (const job::Variant& one : kind.variants)
    cases.push_back(where("type", one.type, variant(kind, one)));
  OrderedJson made = {
      {"type", "object"}, {"properties", {{"type", types_of(kind)}}}, {"allOf", std::move(cases)}};
  if (!parts_) made["required"] = {"type"};
  return made;
}

OrderedJson Tables::variants(const job::VariantKind& kind) {
  return once(definition_name(kind.noun), [&] {
    std::vector<OrderedJson> forms;
    if (!kind.number.empty())
      forms.push_back(number(find_variant(kind, kind.number)->keys.front().bounds));
    for (const job::Variant& one : kind.variants) {
      const bool complete = std::ranges::none_of(one.keys, &KeyDef::required);
      if (kind.by_word && complete) forms.push_back(described({{"const", one.type}}, one.doc));
    }
    forms.push_back(picked(kind));
    return or_variable(std::move(forms));
  });
}

OrderedJson Tables::source(const KeyDef& def) {
  // A mapping with a `type` is a variant; a mapping without one is a section.
  OrderedJson mapping = {{"type", "object"},
                         {"properties", {{"type", types_of(*def.variants)}}},
                         {"if", {{"required", {"type"}}}},
                         {"then", variants(*def.variants)},
                         {"else", section(*def.section)}};
  return any_of({text(def.pattern), std::move(mapping)});
}

OrderedJson Tables::kinds(std::string name, std::span<const job::Section> sections) {
  return once(std::move(name), [&, this] {
    OrderedJson kinds = OrderedJson::array(), cases = OrderedJson::array(),
                properties = OrderedJson::object();
    for (const job::Section& one : sections) {
      const KeyDef& first = one.keys.front();
      properties[std::string(first.name)] = property(first);
      kinds.push_back({{"required", {first.name}}});
      cases.push_back({{"if", {{"required", {first.name}}}}, {"then", keys(one)}});
    }
    return or_variable({{{"type", "object"},
                         {"properties", std::move(properties)},
                         {"anyOf", std::move(kinds)},
                         {"allOf", std::move(cases)}}});
  });
}

}  // namespace flow::schema
